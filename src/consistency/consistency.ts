import type { TopicName } from '../event-catalogue/topic-name.ts';
import type { AwaitedEvent } from '../journal/consistency-token.ts';
import type { Awaited, WaitingRoom } from './waiting-room.ts';

/** Why a model does not have what was asked for. */
export type Shortfall = NotCaughtUp | MissedWindow;

/** It has not come so far yet. */
export interface NotCaughtUp {
  readonly kind: 'not-caught-up';
  readonly model: string;
  readonly awaited: number;
  readonly missing: number;
  /** The time of the newest event it has seen; null before the first. */
  readonly reachedAt: Date | null;
  /** When an operator paused the projection; null when it is not paused. */
  readonly pausedSince: Date | null;
}

/** Events came when their windows were closed: the model will never have them. */
export interface MissedWindow {
  readonly kind: 'missed-window';
  readonly model: string;
  readonly missed: number;
}

export interface ConsistencyQuestion {
  readonly events: readonly AwaitedEvent[];
  /** What is about to be read. */
  readonly models: readonly string[];
  readonly waitMs: number;
  readonly signal?: AbortSignal;
}

export interface Consistency {
  /** Waits until the models have the events. Undefined when they do, otherwise what one of them lacks, and why. */
  waitFor(question: ConsistencyQuestion): Promise<Shortfall | undefined>;
  /** Nobody waits any longer: this process is about to end. */
  close(): void;
}

export interface ConsistencyOptions {
  readonly room: Pick<WaitingRoom, 'wait' | 'close'>;
  /** What a model is made of: it does not have to wait for anything else. */
  readonly topicsOf: (model: string) => ReadonlySet<TopicName>;
  readonly bucketOf: (timeMs: number) => number;
  readonly progressOf: (model: string) => Promise<Pick<NotCaughtUp, 'reachedAt' | 'pausedSince'>>;
}

export const createConsistency = ({
  room,
  topicsOf,
  bucketOf,
  progressOf,
}: ConsistencyOptions): Consistency => ({
  waitFor: async ({ events, models, waitMs, signal }) => {
    const awaited = models.flatMap((model): readonly Awaited[] => {
      const topics = topicsOf(model);
      return events
        .filter(({ topic }) => topics.has(topic))
        .map(({ eventId, occurredAtMs }) => ({ model, eventId, bucketStartMs: bucketOf(occurredAtMs) }));
    });
    const missing = await room.wait(awaited, { waitMs, ...(signal && { signal }) });
    const first = missing.find(({ missedWindow }) => missedWindow) ?? missing[0];
    if (!first) return undefined;
    const ofModel = ({ model }: Awaited): boolean => model === first.model;
    if (first.missedWindow) {
      const missed = missing.filter((event) => ofModel(event) && event.missedWindow).length;
      return { kind: 'missed-window', model: first.model, missed };
    }
    return {
      kind: 'not-caught-up',
      model: first.model,
      awaited: awaited.filter(ofModel).length,
      missing: missing.filter(ofModel).length,
      ...(await progressOf(first.model)),
    };
  },
  close: () => room.close(),
});
