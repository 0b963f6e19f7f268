import type { BinaryRows } from '../postgres/binary-rows.ts';
import { readInt8 } from '../postgres/binary-values.ts';
import type { Database } from '../postgres/database.ts';
import { restoredUntilId } from '../relay/missing-rows.ts';
import type { RawRecord } from '../streams/record.ts';
import type { JournalKind } from './journal-kinds.ts';

/** A part of the journal: what is visible in `to` and not in `from`, and between which ids that lies. */
export interface JournalDelta {
  readonly from: string;
  readonly to: string;
  readonly firstId: number;
  readonly finalId: number;
}

// Rows that came with a dump were there before everything else: they belong to the part that begins with the journal.
// Columns of fixed width first: they stand at the same place in every row.
const statement = {
  name: 'read-journal-page',
  text: `
    select id, schema_fingerprint, partition_key, payload, created_at
    from outbox
    where id >= $3 and id <= $4
      and case when id <= ${restoredUntilId} then pg_snapshot_xmax($1::pg_snapshot) = '1'
               else not pg_visible_in_snapshot(tx_id, $1::pg_snapshot)
                 and pg_visible_in_snapshot(tx_id, $2::pg_snapshot) end
      and event_type = any ($5::text[])
    order by id
    limit $6`,
};

const pageBytesMax = 16 * 1024 * 1024;
const lengthBytes = 4;
/** PostgreSQL counts microseconds from 2000 on. */
const postgresEpochMs = Date.UTC(2000, 0, 1);
const idAt = lengthBytes;
const schemaAt = idAt + 8 + lengthBytes;
const keyLengthAt = schemaAt + 32;

/** A row of the journal as a record whose offset is its id. */
export class JournalRecord implements RawRecord {
  readonly offset: number;
  readonly bytes: Buffer;
  readonly keyStart: number;
  readonly keyEnd: number;
  readonly valueStart: number;
  readonly valueEnd: number;
  readonly kind: JournalKind;

  constructor(bytes: Buffer, start: number, kind: JournalKind) {
    this.bytes = bytes;
    this.kind = kind;
    this.offset = readInt8(bytes, start + idAt);
    this.keyStart = start + keyLengthAt + lengthBytes;
    this.keyEnd = this.keyStart + bytes.readInt32BE(start + keyLengthAt);
    this.valueStart = this.keyEnd + lengthBytes;
    this.valueEnd = this.valueStart + bytes.readInt32BE(this.keyEnd);
  }

  /** When it was appended: it stands for the time at which the broker would have got it. */
  get timestampMs(): number {
    return Math.floor(readInt8(this.bytes, this.valueEnd + lengthBytes) / 1000) + postgresEpochMs;
  }

  get headers(): Readonly<Record<string, Buffer>> {
    return {};
  }

  get replay(): undefined {
    return undefined;
  }

  get key(): Buffer {
    return this.bytes.subarray(this.keyStart, this.keyEnd);
  }

  get value(): Buffer {
    return this.bytes.subarray(this.valueStart, this.valueEnd);
  }
}

/** Tells apart what rows were written with; 32 bytes as text, one character each. */
export const schemaOfRow = (bytes: Buffer, start: number): string =>
  bytes.toString('latin1', start + schemaAt, start + keyLengthAt);

export interface PageRequest {
  readonly delta: JournalDelta;
  readonly fromId: number;
  readonly eventTypes: readonly string[];
  readonly rowsMax: number;
}

export interface JournalPage {
  readonly rows: BinaryRows;
  /** The id to go on with; beyond the delta's last one when there is nothing more. */
  readonly nextId: number;
}

/** The next rows of a delta in id order, in which every aggregate is in order: version n+1 is inserted after n is visible. */
export const readJournalPage = async (
  database: Database,
  { delta, fromId, eventTypes, rowsMax }: PageRequest,
): Promise<JournalPage> => {
  const values = [delta.from, delta.to, fromId, delta.finalId, eventTypes, rowsMax];
  const rows = await database.readBinary(statement, values, {
    bytesMax: pageBytesMax,
    bytesExpected: rowsMax * 350,
  });
  const isLast = !rows.isCut && rows.starts.length < rowsMax;
  const lastAt = rows.starts.at(-1);
  return {
    rows,
    nextId: isLast || lastAt === undefined ? delta.finalId + 1 : readInt8(rows.bytes, lastAt + idAt) + 1,
  };
};
