import { deadLetterHeaders, firstOffsetHeader } from '../kafka/dead-letter-headers.ts';
import { replayHeader } from '../kafka/fetched-record.ts';
import type { StoredRecord } from '../kafka/topic-reader.ts';
import type { LetterKind } from '../streams/ports.ts';
import type { ReplayMark } from '../streams/record.ts';
import { deadLetterTopicOf } from '../topics/topic-plan.ts';
import type { LetterPlace } from './letter-id.ts';

/** Where the record of a letter stood when it came for the first time. */
export interface OriginalPlace {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

/** What there is to know of a letter without its bytes: small enough to hold thousands. */
export interface DeadLetter {
  readonly place: LetterPlace;
  /** Null for a letter that somebody else put there. */
  readonly projection: string | null;
  readonly projectionVersion: number | null;
  readonly kind: LetterKind | null;
  readonly exception: string;
  readonly message: string;
  readonly key: string | null;
  readonly original: OriginalPlace | null;
  /** Times the record had been replayed for this projection before it came here. */
  readonly replays: number;
  readonly failedAt: Date;
  /** Null where the record has no value, a tombstone. */
  readonly valueBytes: number | null;
  /** Set where the value was too large for the letter: it is in the topic only, at this offset, as long as that keeps it. */
  readonly valueAtOffset: number | null;
}

/** A letter whose record can be sent again: it says whose it is and where it came from. */
export type ReplayableLetter = DeadLetter & {
  readonly projection: string;
  readonly original: OriginalPlace;
};

export const isReplayable = (letter: DeadLetter): letter is ReplayableLetter =>
  letter.projection !== null && letter.original !== null;

/** Longer messages are cut, except where one letter is shown. */
const messageLengthMax = 500;

export const letterKinds = [
  'undecodable',
  'failed',
  'refused',
  'parked',
] as const satisfies readonly LetterKind[];

export const toDeadLetter = (
  place: { readonly topic: string; readonly partition: number },
  record: StoredRecord,
): DeadLetter => {
  const { offset, timestampMs, key, value } = record;
  const text = headerTexts(record);
  const leftOut = numberIn(text(deadLetterHeaders.valueLeftOut));
  return {
    place: { topic: place.topic, partition: place.partition, offset },
    projection: text(deadLetterHeaders.projection) || null,
    projectionVersion: numberIn(text(deadLetterHeaders.projectionVersion)),
    kind: letterKinds.find((kind) => kind === text(deadLetterHeaders.kind)) ?? null,
    exception: (text(deadLetterHeaders.exception) ?? 'unknown').slice(0, messageLengthMax),
    message: (text(deadLetterHeaders.message) ?? '').slice(0, messageLengthMax),
    key: key?.toString('utf8') ?? null,
    original: originalIn(place.topic, text),
    replays: readMark(text(replayHeader))?.attempt ?? 0,
    failedAt: timeIn(text(deadLetterHeaders.failedAt)) ?? new Date(timestampMs),
    valueBytes: leftOut ?? value?.length ?? null,
    valueAtOffset: leftOut === null ? null : numberIn(text(deadLetterHeaders.offset)),
  };
};

type HeaderText = (name: string) => string | null;

/** The last one of a name counts. */
export const headerTexts = ({ headers }: StoredRecord): HeaderText => {
  const byName = new Map(headers);
  return (name) => byName.get(name)?.toString('utf8') ?? null;
};

/** Whether a header is about the letter, or an earlier replay, and not the record's own. */
export const isLetterHeader = (name: string): boolean =>
  name.startsWith('__streams.errors.') || name.startsWith('__millrace.');

/** A letter about another topic than the one it lies beside is not believed: a replay must not write just anywhere. */
const originalIn = (letterTopic: string, text: HeaderText): OriginalPlace | null => {
  const topic = text(deadLetterHeaders.topic);
  const partition = numberIn(text(deadLetterHeaders.partition));
  const offset = numberIn(text(firstOffsetHeader)) ?? numberIn(text(deadLetterHeaders.offset));
  if (topic === null || partition === null || offset === null) return null;
  return deadLetterTopicOf(topic) === letterTopic ? { topic, partition, offset } : null;
};

const numberIn = (text: string | null): number | null =>
  text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;

const timeIn = (text: string | null): Date | null => {
  const time = new Date(text ?? Number.NaN);
  return Number.isNaN(time.getTime()) ? null : time;
};

/** What the mark of a replayed record says; undefined when there is none, or none that makes sense. */
const readMark = (text: string | null): Pick<ReplayMark, 'attempt'> | undefined => {
  if (text === null) return undefined;
  try {
    const { attempt } = JSON.parse(text) as { attempt?: unknown };
    return typeof attempt === 'number' && Number.isSafeInteger(attempt) && attempt > 0
      ? { attempt }
      : undefined;
  } catch {
    return undefined;
  }
};

/**
 * Letters of one projection about one record after the same number of replays are one: a process that dies after the letter
 * was safe and before its checkpoint moved writes it again. Letters from elsewhere are known by their place only.
 */
export const letterIdentity = (letter: DeadLetter): string =>
  isReplayable(letter)
    ? JSON.stringify([
        letter.projection,
        letter.projectionVersion ?? 0,
        letter.original.topic,
        letter.original.partition,
        letter.original.offset,
        letter.replays,
      ])
    : JSON.stringify([letter.place.topic, letter.place.partition, letter.place.offset]);
