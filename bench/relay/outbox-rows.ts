import { envelopeSchemaOf } from '../../src/avro/envelope-schema.ts';
import type { Database } from '../../src/postgres/database.ts';

export const payloadBytes = 200;

const fingerprint = Buffer.from(envelopeSchemaOf('ProductViewed').fingerprint, 'hex');

const fillStatement = {
  name: 'fill',
  text: `
    insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
                        request_id, schema_fingerprint, payload, content_hash, occurred_at)
    select gen_random_uuid(), 'loopers.product.viewed.v1', 'bench', 'ProductView', gen_random_uuid(), 1,
           'p' || n % 1000, 'r', $2, payload, sha256('r|loopers.product.viewed.v1|'::bytea || payload), now()
    from generate_series(1, $1::int) n, (select decode(repeat('ab', ${payloadBytes}), 'hex') as payload) p`,
};

/** Rows that the relay takes for real ones, in one transaction: payload, hash and schema fit together. */
export const fillOutbox = async (db: Database, rows: number): Promise<void> => {
  await db.execute(fillStatement, [rows, fingerprint]);
};

const insertStatement = {
  name: 'insert-one',
  text: `
    insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
                        request_id, schema_fingerprint, payload, content_hash, occurred_at)
    select $1::uuid, 'loopers.product.viewed.v1', 'bench', 'ProductView', $1, 1, $1, 'r', $2, payload,
           sha256('r|loopers.product.viewed.v1|'::bytea || payload), now()
    from (select decode(repeat('ab', ${payloadBytes}), 'hex') as payload) p`,
};

/** One row in a transaction of its own. */
export const insertRow = async (db: Database, eventId: string): Promise<void> => {
  await db.execute(insertStatement, [eventId, fingerprint]);
};
