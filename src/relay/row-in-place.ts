import { contentHash } from '../journal/content-hash.ts';
import type { RecordHeaders } from '../kafka/header-block.ts';
import type { RecordInPlace, RecordShape } from '../kafka/record-batch.ts';
import type { OutboxRow } from './outbox-source.ts';

/** A row as bytes. A source that reads bytes gives them as they are, and no text is made that nobody reads. */
export interface RowInPlace {
  /** Event type, source and writer's schema: records of one kind differ in nothing but key, id, trace and payload. */
  readonly kind: string;
  /** Cheaper than comparing the kinds, which have to be made first. */
  isOfKindOf(other: RowInPlace): boolean;
  /** Whether the payload is what the command wrote. */
  isIntact(): boolean;
  toRecord(shape: RecordShape, headers: RecordHeaders | undefined): RecordInPlace;
}

/** For a row that came as texts. */
export const rowInPlaceOf = (row: OutboxRow): RowInPlace => {
  const id = Buffer.from(row.eventId.replaceAll('-', ''), 'hex');
  const key = Buffer.from(row.partitionKey);
  const kind = `${row.eventType} ${row.source} ${row.schemaFingerprint.toString('latin1')}`;
  return {
    kind,
    isOfKindOf: (other) => other.kind === kind,
    isIntact: () => contentHash(row).equals(row.contentHash),
    toRecord: (shape, headers) => ({
      bytes: Buffer.concat([id, key, row.payload]),
      uuidStart: 0,
      keyStart: id.length,
      keyEnd: id.length + key.length,
      valueStart: id.length + key.length,
      valueEnd: id.length + key.length + row.payload.length,
      shape,
      headers,
    }),
  };
};
