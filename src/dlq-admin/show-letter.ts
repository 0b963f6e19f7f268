import type { Envelope } from '../avro/envelope.ts';
import { deadLetterHeaders } from '../kafka/dead-letter-headers.ts';
import type { StoredRecord, TopicReader } from '../kafka/topic-reader.ts';
import { type DeadLetter, headerTexts, isLetterHeader, toDeadLetter } from './dead-letter.ts';
import type { Decision, JudgedLetter } from './decision.ts';
import { findDecisions } from './find-decisions.ts';
import { findHistory } from './find-history.ts';
import { readLeftOutValues } from './left-out-values.ts';
import { type LetterPlace, placeKey } from './letter-id.ts';
import { findLettersOfParkedKeys } from './parked-keys.ts';
import { type Desk, readPlaces } from './scan-letters.ts';

/** Reads a record's value as it lay in its topic, in today's shape. */
export type ReadValue = (framed: Buffer) => Promise<Envelope>;

export interface ShownHeader {
  readonly name: string;
  /** As text, or in hexadecimal digits where it is none; null for a header without a value. */
  readonly value: string | null;
  readonly isText: boolean;
}

/** Everything there is to know about one letter. */
export interface ShownLetter extends JudgedLetter {
  readonly message: string;
  readonly stack: string;
  /** Whether its key is parked: then it is replayed with all others of the key, or not at all. */
  readonly isParked: boolean;
  /** The record's own. */
  readonly headers: readonly ShownHeader[];
  /** What the record says; why it cannot be read, with its bytes; null when it has no value. */
  readonly value:
    | { readonly envelope: Envelope }
    | { readonly unreadable: string; readonly bytes: Buffer }
    | null;
  /** What was decided about this record for this projection, earlier replays included; oldest first. */
  readonly history: readonly Decision[];
}

export const showLetter = async (
  desk: Desk,
  readValue: ReadValue,
  place: LetterPlace,
): Promise<ShownLetter | undefined> => {
  const record = (await readPlaces(desk.reader, [place])).get(placeKey(place));
  if (!record) return undefined;
  const letter = toDeadLetter(place, record);
  const [[decision], parked, history] = await Promise.all([
    findDecisions(desk.database, [letter]),
    findLettersOfParkedKeys(desk.database, [letter]),
    findHistory(desk.database, letter),
  ]);
  const text = headerTexts(record);
  return {
    letter,
    decision,
    message: text(deadLetterHeaders.message) ?? '',
    stack: text(deadLetterHeaders.stack) ?? '',
    isParked: parked.has(letter),
    headers: headersOf(record),
    value: await shownValue(await valueOfLetter(desk.reader, letter, record), readValue),
    history,
  };
};

const headersOf = ({ headers }: StoredRecord): readonly ShownHeader[] =>
  headers
    .filter(([name]) => !isLetterHeader(name))
    .map(([name, value]) => {
      const text = value?.toString('utf8') ?? null;
      const isText = value === null || Buffer.from(text ?? '').equals(value);
      return { name, value: isText ? text : value.toString('hex'), isText };
    });

/** Undefined where it was left out and is not in its topic any more. */
const valueOfLetter = async (
  reader: TopicReader,
  letter: DeadLetter,
  { value }: StoredRecord,
): Promise<Buffer | null | undefined> =>
  letter.valueAtOffset === null ? value : (await readLeftOutValues(reader, [letter])).get(letter);

const shownValue = async (
  value: Buffer | null | undefined,
  readValue: ReadValue,
): Promise<ShownLetter['value']> => {
  if (value === null) return null;
  if (value === undefined)
    return {
      unreadable: 'It was too large for the letter, and its topic does not have it any more',
      bytes: Buffer.alloc(0),
    };
  try {
    return { envelope: await readValue(value) };
  } catch (error) {
    // Also when it is only the registry that does not answer: what is known is worth seeing all the same.
    return { unreadable: (error as Error).message, bytes: value };
  }
};
