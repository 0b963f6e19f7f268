import type { RecordDecoder } from '../streams/ports.ts';
import type { DecodedRecord, RawRecord, UndecodableRecord } from '../streams/record.ts';
import { JournalRecord } from './journal-page.ts';

/** Old schemas are resolved and events of the past upcast, as they are on their way through Kafka. */
export const journalDecoder: RecordDecoder = {
  decode: async ({ topic, partition, reading, fromOffset, records, nextOffset }) => ({
    topic,
    partition,
    reading,
    fromOffset,
    records: records.map(decoded),
    nextOffset,
  }),
};

const decoded = (raw: RawRecord): DecodedRecord | UndecodableRecord => {
  if (!(raw instanceof JournalRecord)) throw new TypeError('Only rows of the journal are decoded here');
  try {
    const value = raw.kind.read(raw.bytes, raw.valueStart, raw.valueEnd);
    const key = raw.bytes.toString('utf8', raw.keyStart, raw.keyEnd);
    return { raw, key, value, id: value.id, timeMs: value.time };
  } catch (error) {
    return { raw, error: error as Error };
  }
};
