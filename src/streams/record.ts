/** One partition of one topic: records in it are ordered, and one process at a time applies them. */
export interface Place {
  readonly topic: string;
  readonly partition: number;
}

export const placeText = ({ topic, partition }: Place): string => `${topic}/${partition}`;

/**
 * Which log an offset belongs to. A topic that is deleted and made anew has another id; a log that has lost its end goes on
 * under a later leader epoch.
 */
export interface LogIdentity {
  readonly topicId: string;
  /** Of the record before the offset; undefined where nobody knows. */
  readonly leaderEpoch: number | undefined;
}

/** Why offsets that were read do not count any more: the topic was made anew, or its log has lost the end that was read. */
export type LogBreak = 'recreated' | 'truncated';

/** What a replayed record says of itself, in its first header. */
export interface ReplayMark {
  /** One run of the replay tool; a key's records that are replayed together share it. */
  readonly id: string;
  /** Whose dead letter it was. Other projections have handled the record, or have a dead letter of their own. */
  readonly projection: string;
  /** 1 for the first replay of this record, and so on. */
  readonly attempt: number;
}

/**
 * Records that are sound, and that this process does not know how to read. They are not undecodable: their place waits at
 * them, until a process comes that can.
 */
export class UnsupportedRecords extends Error {
  override readonly name = 'UnsupportedRecords';
}

/** A record as the broker has it: bytes and where they stand. */
export interface RawRecord {
  readonly offset: number;
  readonly timestampMs: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  /** A header that occurs several times keeps its last value. */
  readonly headers: Readonly<Record<string, Buffer>>;
  /** Set on a record that an operator has sent again from the dead letters. */
  readonly replay: ReplayMark | undefined;
  /** The bytes that the value lies in, among others: what decodes it in place spares a buffer per record. */
  readonly bytes: Buffer;
  /** −1 when there is no value. */
  readonly valueStart: number;
  readonly valueEnd: number;
  /** Set where the bytes could not even be taken apart into records, and tells why: this one stands for all of those. */
  readonly damage?: Error;
}

/** Consecutive records of one place. */
export interface RawBatch extends Place {
  /** Which reading of the place it belongs to: another one begins with every assignment and every seek. */
  readonly reading: number;
  /** The offset that was asked for: nothing lies between it and the first record. */
  readonly fromOffset: number;
  readonly records: readonly RawRecord[];
  /** The offset to read next once this batch is applied; aborted and control records have offsets too. */
  readonly nextOffset: number;
  /** The log that `nextOffset` belongs to, where the source knows. */
  readonly log?: LogIdentity | undefined;
  /** Set on a batch without records: the place begins anew at its `nextOffset`, whatever was applied of it before. */
  readonly logBreak?: LogBreak | undefined;
}

/** A record after decoding. */
export interface DecodedRecord {
  readonly raw: RawRecord;
  readonly key: string | null;
  readonly value: unknown;
  /** The event's UUID in lower case. Whatever comes twice has the same id, and the same time. */
  readonly id: string;
  /** When it happened, as the event tells; never when it was read. */
  readonly timeMs: number;
}

/** A record that cannot be decoded, however often one tries. */
export interface UndecodableRecord {
  readonly raw: RawRecord;
  readonly error: Error;
}

export interface DecodedBatch extends Place {
  readonly reading: number;
  readonly fromOffset: number;
  /** Every record of the batch, in order. */
  readonly records: readonly (DecodedRecord | UndecodableRecord)[];
  readonly nextOffset: number;
  readonly log?: LogIdentity | undefined;
  readonly logBreak?: LogBreak | undefined;
  /** Why decoding stopped at `nextOffset`, when it did not reach the end: trying again from there may help. */
  readonly stopped?: Error;
}

export const isUndecodable = (record: DecodedRecord | UndecodableRecord): record is UndecodableRecord =>
  'error' in record;
