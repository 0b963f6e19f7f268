import type { Origin } from '../graph.ts';
import { notNegative } from '../windows.ts';

/**
 * Which records of two streams belong together: those whose event times are no further apart than this, both ends included.
 * As in Kafka Streams, `before` and `after` are seen from the stream that the join is called on.
 */
export interface JoinWindows {
  /** How long before a record of this stream the other one may have happened. */
  readonly beforeMs: number;
  /** How long after it. */
  readonly afterMs: number;
  /** How long after the end of its window a record still waits for others, by the time of the stream. */
  readonly graceMs: number;
}

export const joinWindows = ({ beforeMs, afterMs, graceMs }: JoinWindows): JoinWindows => ({
  beforeMs: notNegative('beforeMs', beforeMs),
  afterMs: notNegative('afterMs', afterMs),
  graceMs: notNegative('graceMs', graceMs),
});

export type Side = 'left' | 'right';
export const otherSide = { left: 'right', right: 'left' } as const satisfies Record<Side, Side>;

/** A record that waits for others. */
export interface WaitingRecord extends Origin {
  readonly value: unknown;
  /** Set where it matters: whether an unmatched one is handed on. */
  readonly isMatched?: boolean;
  /** Set when it could not be handed on: it is not tried again before that. */
  readonly retryAtMs?: number;
}

/** When a record stops waiting for others. */
export const closesAtMs = (
  { beforeMs, afterMs, graceMs }: JoinWindows,
  side: Side,
  { timeMs }: Pick<Origin, 'timeMs'>,
): number => timeMs + (side === 'left' ? afterMs : beforeMs) + graceMs + 1;

/** When it is to be looked at. */
export const readyAtMs = (windows: JoinWindows, side: Side, record: WaitingRecord): number =>
  Math.max(closesAtMs(windows, side, record), record.retryAtMs ?? Number.NEGATIVE_INFINITY);

/** Whether two records belong together. */
export const areClose = (
  { beforeMs, afterMs }: JoinWindows,
  pair: Readonly<Record<Side, Pick<Origin, 'timeMs'>>>,
): boolean => {
  const apartMs = pair.right.timeMs - pair.left.timeMs;
  return apartMs >= -beforeMs && apartMs <= afterMs;
};
