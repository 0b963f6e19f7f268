import type { Origin } from './graph.ts';
import { type DecodedRecord, isUndecodable, type UndecodableRecord } from './record.ts';

/**
 * How far a record's time may lie ahead of the broker's unless the stream says otherwise. Clocks differ by seconds; what is
 * further ahead is a mistake, and must not make everything behind it late.
 */
export const futureMaxMsDefault = 3_600_000;

export interface StreamOptions<V> {
  /** When a record happened, in milliseconds; without it the time that the event itself tells. Pure: it may be asked again. */
  readonly time?: (value: V) => number;
  /**
   * How far that may lie ahead of the broker's timestamp (an hour unless told). What lies beyond is early: it is counted as
   * such, is in no window, and does not move the time of the stream.
   */
  readonly futureMaxMs?: number;
}

/** How the records of a topic tell their time. */
export interface SourceTime {
  readonly topic: string;
  readonly extract: ((value: unknown) => number) | undefined;
  readonly futureMaxMs: number;
  /** Set for the topic of a global table: its records come before all others of a batch, and move no clock. */
  readonly isGlobal?: true;
}

export const sourceTime = <V>(
  topic: string,
  { time, futureMaxMs = futureMaxMsDefault }: StreamOptions<V> = {},
): SourceTime => {
  if (!Number.isSafeInteger(futureMaxMs) || futureMaxMs < 0)
    throw new RangeError(`${topic}: futureMaxMs must be a whole number from 0 on`);
  return { topic, extract: time as SourceTime['extract'], futureMaxMs };
};

export const isSameTime = (one: SourceTime, other: SourceTime): boolean =>
  one.extract === other.extract && one.futureMaxMs === other.futureMaxMs;

const timeIn = ({ topic, extract }: SourceTime, record: DecodedRecord): number => {
  if (!extract) return record.timeMs;
  const timeMs = extract(record.value);
  if (Number.isSafeInteger(timeMs)) return timeMs;
  throw new RangeError(
    `The time of a record of ${topic} must be a whole number of milliseconds, and is ${timeMs}`,
  );
};

/** A record with the time that counts. Judged by the broker's timestamp, so that another reading judges the same. */
export const originOf = (source: SourceTime, record: DecodedRecord): Origin => {
  const timeMs = timeIn(source, record);
  const isEarly = timeMs > record.raw.timestampMs + source.futureMaxMs;
  if (!isEarly && !source.extract) return record;
  return {
    id: record.id,
    timeMs,
    raw: record.raw,
    ...(isEarly && { isEarly }),
    ...(timeMs !== record.timeMs && { recordedMs: record.timeMs }),
  };
};

/** When its turn is among the records of other topics. What has no time that counts waits for nothing. */
export const turnTimeOf = (source: SourceTime, record: DecodedRecord | UndecodableRecord): number => {
  if (isUndecodable(record)) return Number.NEGATIVE_INFINITY;
  try {
    const { timeMs, isEarly } = originOf(source, record);
    return isEarly ? Number.NEGATIVE_INFINITY : timeMs;
  } catch {
    // Told when it is its turn.
    return Number.NEGATIVE_INFINITY;
  }
};
