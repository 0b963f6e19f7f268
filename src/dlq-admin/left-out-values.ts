import type { StoredRecord, TopicReader } from '../kafka/topic-reader.ts';
import { type DeadLetter, isReplayable } from './dead-letter.ts';
import { type LetterPlace, placeKey } from './letter-id.ts';
import { readPlaces } from './scan-letters.ts';

/** Where the record of a letter without its value stands. */
const placeOf = (letter: DeadLetter): LetterPlace | undefined =>
  isReplayable(letter) && letter.valueAtOffset !== null
    ? { topic: letter.original.topic, partition: letter.original.partition, offset: letter.valueAtOffset }
    : undefined;

/** Those letters whose value was left out and is gone from its topic, too: only the cause is left. */
export const findLettersWithoutValue = async (
  reader: TopicReader,
  letters: readonly DeadLetter[],
): Promise<ReadonlySet<DeadLetter>> => {
  const places = letters.flatMap((letter) => placeOf(letter) ?? []);
  if (places.length === 0) return new Set();
  const ranges = await reader.ranges([...new Set(places.map(({ topic }) => topic))]);
  const isThere = (place: LetterPlace): boolean =>
    ranges.some(
      ({ topic, partition, start, end }) =>
        topic === place.topic && partition === place.partition && start <= place.offset && place.offset < end,
    );
  return new Set(
    letters.filter((letter) => {
      const place = placeOf(letter);
      return place !== undefined && !isThere(place);
    }),
  );
};

/** A topic that was made anew, or has lost its end, has other records at the same offsets. */
const isOf = (letter: DeadLetter, { key, value }: StoredRecord): boolean =>
  (key?.toString('utf8') ?? null) === letter.key && value?.length === letter.valueBytes;

/** The values that were left out of these letters, from their topics; those that are gone are missing. */
export const readLeftOutValues = async (
  reader: TopicReader,
  letters: readonly DeadLetter[],
): Promise<ReadonlyMap<DeadLetter, Buffer | null>> => {
  const places = new Map(
    letters.flatMap((letter) => {
      const place = placeOf(letter);
      return place ? [[letter, place] as const] : [];
    }),
  );
  if (places.size === 0) return new Map();
  const records = await readPlaces(reader, [...places.values()]);
  return new Map(
    [...places].flatMap(([letter, place]) => {
      const record = records.get(placeKey(place));
      return record && isOf(letter, record) ? [[letter, record.value] as const] : [];
    }),
  );
};
