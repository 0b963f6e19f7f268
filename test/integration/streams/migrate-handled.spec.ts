import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { productId } from '../../../src/domain/ids.ts';
import type { SealedEvent } from '../../../src/journal/seal-event.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { migrate } from '../../../src/postgres/migrate.ts';
import { createPostgresStateStore } from '../../../src/streams-postgres/postgres-state-store.ts';
import { keepUpHandled } from '../../../src/streams-postgres/upkeep/handled-upkeep.ts';
import { sealed } from '../../support/journal.ts';
import { migrateUpTo } from '../../support/migrate-up-to.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';
import { at, batch, committed, move, newProjection } from '../../support/state-store-contract/batches.ts';

const projection = { name: 'product-statistic', version: 1 };
const topic = 'product-view-events';

const viewEvent = (product: string): SealedEvent =>
  sealed({ aggregateType: 'ProductView', aggregateId: `${product}_${uuidv7()}` }, 1, {
    type: 'ProductViewed',
    productId: productId(product),
    userId: null,
  });
const bucketOf = ({ occurredAt }: SealedEvent): number => Math.floor(occurredAt.getTime() / 10_000) * 10_000;

/** As it was written then; what writes today knows columns that came later. */
const appendThen = async (db: Database, events: readonly SealedEvent[]): Promise<void> => {
  await db.execute(
    {
      name: 'spec-append-then',
      text: `
        insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
                            request_id, schema_fingerprint, payload, content_hash, occurred_at)
        select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::text[], $8::text[],
                             $9::bytea[], $10::bytea[], $11::bytea[], $12::timestamptz[])`,
    },
    [
      events.map((event) => event.eventId),
      events.map((event) => event.eventType),
      events.map((event) => event.source),
      events.map((event) => event.stream.aggregateType),
      events.map((event) => event.stream.aggregateId),
      events.map((event) => event.version),
      events.map((event) => event.partitionKey),
      events.map((event) => event.requestId),
      events.map((event) => event.schemaFingerprint),
      events.map((event) => event.payload),
      events.map((event) => event.contentHash),
      events.map((event) => event.occurredAt),
    ],
  );
};

describe('what was handled before', () => {
  const workspace = useWorkspace();
  let db: Database;
  let counted: readonly SealedEvent[];
  let uncounted: SealedEvent;

  before(async () => {
    const { databaseUrl } = workspace().endpoints;
    await migrateUpTo(databaseUrl, '0010');
    db = openTestDatabase(workspace());
    counted = [
      { ...viewEvent('a'), occurredAt: new Date('2024-02-29T23:59:59.999Z') },
      { ...viewEvent('a'), occurredAt: new Date('2024-02-29T23:59:50.000Z') },
      { ...viewEvent('b'), occurredAt: new Date('2024-03-01T00:00:00.000Z') },
    ];
    uncounted = { ...viewEvent('b'), occurredAt: new Date('2024-03-01T00:00:01.000Z') };
    await appendThen(db, [...counted, uncounted]);
    await db.execute(
      {
        name: 'spec-handled-before',
        text: `insert into event_handled (aggregate_type, aggregate_id, action)
               select 'ProductView', id, 'VIEW_COUNT_INCREASED' from unnest($1::text[]) id`,
      },
      [counted.map(({ stream }) => stream.aggregateId)],
    );
    await db.execute(
      {
        name: 'spec-checkpoint-before',
        text: `insert into projection_checkpoint (projection, topic, partition, next_offset) values ($1, $2, 1, 17)`,
      },
      [projection.name, topic],
    );
    const applied = await migrate(databaseUrl, { log: silentLog(), connectTimeoutMs: 5000 });
    expect(applied[0]).to.equal('0010_streams');
  });

  const store = () => createPostgresStateStore({ database: db, appendDerived: async () => {} });
  const asked = () =>
    [...counted, uncounted].map((event) => ({ ...at(2, topic), bucketStartMs: bucketOf(event) }));

  it('is known wherever it turns up again, and only to the projection that counted it', async () => {
    const [first, second, third] = counted.map(({ eventId }) => eventId);
    const found = await store().loadHandled(projection, asked());
    expect(found.map((ids) => [...ids].sort())).to.deep.equal(
      [[first, second], [first, second], [third], [third]].map((ids) => [...ids].sort()),
    );
    const elsewhere = await store().loadHandled(
      projection,
      asked().map((request) => ({ ...request, ...at(0, 'another-topic') })),
    );
    expect(elsewhere.map(({ length }) => length)).to.deep.equal([2, 2, 1, 1]);
    const others = [newProjection(), { ...projection, version: 2 }];
    for (const other of others) {
      expect((await store().loadHandled(other, asked())).flat()).to.deep.equal([]);
    }
  });

  it('stands beside what is handled now', async () => {
    const outcome = await store().commit(
      batch(projection, {
        moves: [move(at(2, topic), undefined, 1)],
        handled: [{ ...at(2, topic), bucketStartMs: bucketOf(uncounted), ids: [uncounted.eventId] }],
      }),
    );
    expect(outcome).to.deep.equal(committed);
    const found = (await store().loadHandled(projection, asked())).at(-1);
    expect([...(found ?? [])].sort()).to.deep.equal([counted[2]?.eventId, uncounted.eventId].sort());
  });

  it('keeps its checkpoint as the first version', async () => {
    const [state] = await store().loadPlaces(projection, [at(1, topic)]);
    expect(state?.checkpoint).to.deep.equal({ nextOffset: 17, streamTimeMs: Number.NEGATIVE_INFINITY });
    const outcome = await store().commit(batch(projection, { moves: [move(at(1, topic), 17, 18)] }));
    expect(outcome).to.deep.equal(committed);
  });

  it('is shown by its names', async () => {
    const rows = await db.execute<{ id: string }>({
      name: 'spec-shown',
      text: `select aggregate_id as id from event_handled where aggregate_type = 'ProductView' and projection = 'product-statistic'
             order by aggregate_id`,
    });
    expect(rows.map(({ id }) => id)).to.include.members(counted.map(({ stream }) => stream.aggregateId));
  });

  it('is forgotten when its time is over', async () => {
    const scopes = async () =>
      (await db.execute({ name: 'spec-legacy', text: 'select from projection_scope where partition = -1' }))
        .length;
    const day = 86_400_000;
    const options = { database: db, retentionMs: 37 * day, log: silentLog() };
    await keepUpHandled(options, Date.now());
    expect(await scopes()).to.equal(1);
    await keepUpHandled(options, Date.now() + 38 * day);
    expect(await scopes()).to.equal(0);
    expect((await store().loadHandled(projection, asked())).flat()).to.deep.equal([]);
  });
});
