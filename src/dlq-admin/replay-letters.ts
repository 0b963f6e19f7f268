import { firstOffsetHeader } from '../kafka/dead-letter-headers.ts';
import { replayHeader } from '../kafka/fetched-record.ts';
import { encodeHeaderEntries } from '../kafka/header-block.ts';
import type { OutgoingRecord, RecordProducer } from '../kafka/record-producer.ts';
import type { StoredRecord } from '../kafka/topic-reader.ts';
import { writeAudit } from '../operator-audit/write-audit.ts';
import { OperatorError } from '../operator-error.ts';
import type { Database } from '../postgres/database.ts';
import type { ReplayMark } from '../streams/record.ts';
import { isLetterHeader, type ReplayableLetter } from './dead-letter.ts';
import { readLeftOutValues } from './left-out-values.ts';
import { letterId, placeKey } from './letter-id.ts';
import { markReplayed } from './mark-replayed.ts';
import { type Desk, readPlaces } from './scan-letters.ts';
import type { LetterSelection } from './select-letters.ts';
import { writeDecisions } from './write-decisions.ts';

export interface Replay {
  /** One run; what was replayed together shares it. */
  readonly id: string;
  readonly who: string;
  /** For the audit: how the letters were chosen, where it was not by their ids. */
  readonly chosenBy: LetterSelection | undefined;
}

export interface ReplayTools {
  readonly desk: Desk;
  readonly database: Database;
  readonly producer: RecordProducer;
}

/** What is held in memory and sent together; a letter alone may be larger. */
const chunkLettersMax = 500;
const chunkBytesMax = 8 * 1024 * 1024;

/** Sends the records of the letters again: to the topic and the partition they came from, in the order of the letters. */
export const replayLetters = async (
  { desk, database, producer }: ReplayTools,
  letters: readonly ReplayableLetter[],
  replay: Replay,
): Promise<void> => {
  let sent = 0;
  for (const chunk of inChunks(letters)) {
    const ids = chunk.map(({ place }) => letterId(desk.topics, place));
    try {
      const records = await recordsOf(desk, chunk, replay.id);
      await intend(database, chunk, { ...replay, ids });
      // A crash from here on leaves letters that may have been sent: they stay open, and are harmless when sent twice.
      await producer.send(records);
    } catch (cause) {
      throw brokenOff(cause as Error, sent);
    }
    await markReplayed(database, chunk, replay.id);
    sent += chunk.length;
    desk.onProgress({ doing: 'replaying', done: sent, total: letters.length });
  }
};

const inChunks = function* (letters: readonly ReplayableLetter[]): Generator<readonly ReplayableLetter[]> {
  let chunk: ReplayableLetter[] = [];
  let bytes = 0;
  for (const letter of letters) {
    const size = letter.valueBytes ?? 0;
    if (chunk.length > 0 && (chunk.length === chunkLettersMax || bytes + size > chunkBytesMax)) {
      yield chunk;
      chunk = [];
      bytes = 0;
    }
    chunk.push(letter);
    bytes += size;
  }
  if (chunk.length > 0) yield chunk;
};

const intend = (
  database: Database,
  letters: readonly ReplayableLetter[],
  { id, who, chosenBy, ids }: Replay & { readonly ids: readonly string[] },
): Promise<void> =>
  database.transaction(async (tx) => {
    await writeDecisions(tx, letters, { decision: 'replayed', who, replayId: id });
    await writeAudit(tx, {
      who,
      action: 'dead-letters.replay',
      target: { replayId: id, chosenBy, letters: ids },
    });
  });

/** The records as they were, by topic. What is gone since it was chosen is no reason to leave it out: others follow it. */
const recordsOf = async (
  { reader, topics }: Desk,
  letters: readonly ReplayableLetter[],
  replayId: string,
): Promise<ReadonlyMap<string, readonly OutgoingRecord[]>> => {
  const stored = await readPlaces(
    reader,
    letters.map(({ place }) => place),
  );
  const leftOut = await readLeftOutValues(reader, letters);
  return Map.groupBy(
    letters.map((letter) => {
      const record = stored.get(placeKey(letter.place));
      const value = letter.valueAtOffset === null ? record?.value : leftOut.get(letter);
      if (!record || value === undefined) throw new Error(`${letterId(topics, letter.place)} is gone`);
      return { topic: letter.original.topic, ...recordOf(letter, { ...record, value }, replayId) };
    }),
    ({ topic }) => topic,
  );
};

const recordOf = (letter: ReplayableLetter, record: StoredRecord, replayId: string): OutgoingRecord => {
  const { projection, original, replays } = letter;
  const mark: ReplayMark = { id: replayId, projection, attempt: replays + 1 };
  return {
    key: record.key,
    value: record.value,
    partition: original.partition,
    sharedHeaders: encodeHeaderEntries([
      // The projections look for it in the first place only.
      [replayHeader, Buffer.from(JSON.stringify(mark))],
      [firstOffsetHeader, Buffer.from(String(original.offset))],
      ...record.headers.filter(([name]) => !isLetterHeader(name)),
    ]),
  };
};

const brokenOff = (cause: Error, sent: number): OperatorError =>
  new OperatorError(`The replay broke off after ${sent} letters: ${cause.message}`, {
    remedy:
      'Do the same again when Kafka is well: what was not sent is still open, and once more is harmless',
    cause,
  });
