import type { StoredRecord, TopicReader } from '../kafka/topic-reader.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { toDeadLetter } from './dead-letter.ts';
import type { JudgedLetter } from './decision.ts';
import { findDecisions } from './find-decisions.ts';
import { type LetterFilter, matches } from './letter-filter.ts';
import { type LetterPlace, type LetterTopics, letterTopicOf, placeKey } from './letter-id.ts';

/** How far a long look has come. */
export interface Progress {
  readonly doing: 'reading' | 'replaying' | 'dropping';
  readonly done: number;
  readonly total: number;
}

export type OnProgress = (progress: Progress) => void;

/** What looking at letters needs. */
export interface Desk {
  readonly database: SqlRunner;
  readonly reader: TopicReader;
  readonly topics: LetterTopics;
  readonly onProgress: OnProgress;
}

/** Letters whose decisions are asked for together. */
const judgedTogetherMax = 1000;

/** Every letter that the filter lets through, decided or not, topic by topic in the order they were written. */
export const scanLetters = async function* (
  { database, reader, topics, onProgress }: Desk,
  filter: LetterFilter,
): AsyncGenerator<readonly JudgedLetter[]> {
  const names = filter.topic === undefined ? topics.names : [filter.topic];
  // A letter is written after what it tells of, so the broker's time leaves out nothing that is young enough.
  const ranges = await reader.ranges(
    names.map((name) => letterTopicOf(topics, name)),
    filter.since && { sinceMs: filter.since.getTime() },
  );
  const total = ranges.reduce((sum, { start, end }) => sum + end - start, 0);
  let done = 0;
  for (const range of ranges) {
    for await (const records of reader.read(range)) {
      for (const some of inSlices(records, judgedTogetherMax)) {
        const letters = some
          .map((record) => toDeadLetter(range, record))
          .filter((letter) => matches(filter, letter));
        const decisions = await findDecisions(database, letters);
        done += some.length;
        onProgress({ doing: 'reading', done, total });
        yield letters.map((letter, index) => ({ letter, decision: decisions[index] }));
      }
    }
  }
};

const inSlices = function* <T>(all: readonly T[], size: number): Generator<readonly T[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size);
};

/** Offsets so near to each other that reading what lies between costs less than asking twice. */
const gapMax = 100;

/** The records at these places, by place; those that are not there any more, or never were, are missing. */
export const readPlaces = async (
  reader: TopicReader,
  places: readonly LetterPlace[],
): Promise<ReadonlyMap<string, StoredRecord>> => {
  const found = new Map<string, StoredRecord>();
  const wanted = new Set(places.map(placeKey));
  const ranges = await reader.ranges([...new Set(places.map(({ topic }) => topic))]);
  for (const { topic, partition, start, end } of ranges) {
    const offsets = places
      .filter((place) => place.topic === topic && place.partition === partition)
      .map(({ offset }) => offset)
      .filter((offset) => offset >= start && offset < end);
    for (const stretch of inStretches(offsets)) {
      for await (const records of reader.read({ topic, partition, ...stretch })) {
        for (const record of records) {
          const key = placeKey({ topic, partition, offset: record.offset });
          if (wanted.has(key)) found.set(key, record);
        }
      }
    }
  }
  return found;
};

const inStretches = (offsets: readonly number[]): readonly { start: number; end: number }[] => {
  const stretches: { start: number; end: number }[] = [];
  for (const offset of offsets.toSorted((a, b) => a - b)) {
    const last = stretches.at(-1);
    if (last && offset - last.end < gapMax) last.end = offset + 1;
    else stretches.push({ start: offset, end: offset + 1 });
  }
  return stretches;
};
