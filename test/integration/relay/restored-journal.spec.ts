import { expect } from 'chai';
import pg from 'pg';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { storeWriterSchemas } from '../../../src/journal/writer-schemas.ts';
import type { TopicReader } from '../../../src/kafka/topic-reader.ts';
import { listPendingEvents } from '../../../src/outbox-admin/list-pending-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { readJournalPage } from '../../../src/rebuild/journal-page.ts';
import { startGhostWatch } from '../../../src/relay/ghosts/watch-ghosts.ts';
import { reshard } from '../../../src/relay/reshard.ts';
import { createRelayAdmin } from '../../../src/relay-admin/relay-admin.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { createMemoryBroker, type MemoryBroker, useRelays } from '../../support/memory-broker.ts';
import { openDatabaseAt, openTestDatabase } from '../../support/open-database.ts';
import { usePostgresPair } from '../../support/postgres-pair.ts';
import { restoreDump } from '../../support/restore-dump.ts';
import { recordingLog, silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const range = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => `k${from + index}`);

const append = async (db: Database, keys: readonly string[]): Promise<void> => {
  for (const key of keys) await appendEvents(db, [viewOf(key, 1)]);
};

/** Transactions that a server of some age has behind it. */
const agedBy = 100_000;
const published = 15;
const written = 20;

describe('a journal that was restored from a dump into a new server', function () {
  this.timeout(180_000);
  const old = useWorkspace();
  const fresh = usePostgresPair();
  let db: Database;
  let oldDb: Database;
  const { log, lines } = recordingLog();
  const oldRelays = useRelays(() => oldDb, silentLog());
  const relays = useRelays(() => db, log);
  const admin = () =>
    createRelayAdmin(db, { stallAfterMs: 60_000, slotLagBytesMax: 1e9, handledRetentionMs: 7 * 86_400_000 });

  before(async () => {
    oldDb = openTestDatabase(old(), 4);
    const aging = `do $$ begin for i in 1..${agedBy} loop perform pg_current_xact_id(); commit; end loop; end $$`;
    await oldDb.execute({ name: 'spec-age', text: aging });
    await storeWriterSchemas(oldDb);
    await append(oldDb, range(0, published));
    const broker = createMemoryBroker();
    const relay = oldRelays.startMain('old', broker);
    await eventually(() => expect(broker.keys).to.deep.equal(range(0, published)));
    await relay.stop();
    await append(oldDb, range(published, written));
    await restoreDump({ from: old().endpoints.databaseUrl, to: fresh().databaseUrl });
    db = openDatabaseAt(fresh().databaseUrl, 4);
  });
  after(() => db.close());

  const questions: string[] = [];
  const ask = async <T>(text: string): Promise<T> => {
    if (!questions.includes(text)) questions.push(text);
    const [row] = await db.execute<{ answer: T }>({ name: `spec-ask-${questions.indexOf(text)}`, text });
    if (!row) throw new Error('The question has an answer');
    return row.answer;
  };
  const firstSeen = ({ keys }: MemoryBroker): readonly string[] => [...new Set(keys)];

  it('has transaction ids that are still to come here', async () => {
    const isSo = `select bool_and(tx_id > pg_snapshot_xmax(pg_current_snapshot())) as answer from outbox`;
    expect(await ask(isSo)).to.equal(true);
  });

  it('is noticed to be elsewhere, so that the topics are searched for events that the dump lacks', async () => {
    const searched: (number | undefined)[] = [];
    const emptyReader: TopicReader = {
      ranges: async (_topics, { sinceMs } = {}) => {
        searched.push(sinceMs);
        return [];
      },
      read: async function* () {
        yield* [];
        return 0;
      },
      close: async () => {},
    };
    const registry = { idOf: () => Promise.reject(), writerType: () => Promise.reject() };
    const watch = startGhostWatch({
      database: db,
      registry,
      topics: [],
      openReader: async () => emptyReader,
      holder: 'spec',
      log: silentLog(),
    });
    await eventually(async () => expect((await admin().status()).ghosts.search).to.include({ done: 1 }), {
      timeoutMs: 60_000,
    });
    await watch.stop();
    const lastSeen = await ask<Date>('select min(seen_at) as answer from journal_timeline');
    expect(searched).to.have.length(1);
    expect(searched[0]).to.be.lessThan(lastSeen.getTime());
  });

  it('is not published before somebody says from where on', async () => {
    const broker = createMemoryBroker();
    relays.startMain('a', broker);
    await eventually(() => expect(JSON.stringify(lines)).to.match(/relay resync --from-id/));
    expect(broker.keys).to.deep.equal([]);
  });

  it('waits with that for whoever is just writing, and says so when it takes too long', async () => {
    const writer = new pg.Client({ connectionString: fresh().databaseUrl });
    await writer.connect();
    await writer.query('begin; lock table outbox in row exclusive mode');
    const refusal = await admin()
      .resync(1, { who: 'spec', dryRun: false })
      .catch((error: Error) => error);
    await writer.end();
    expect(String(refusal)).to.match(/transaction that writes events/);
    expect(await ask('select restored_until_id as answer from journal_origin')).to.equal(0);
  });

  it('is published from there on, and then what is committed later, each event once', async () => {
    const fromId = await ask<number>(`select id as answer from outbox where partition_key = 'k3'`);
    expect(await admin().resync(fromId, { who: 'spec', dryRun: true })).to.include({ rows: written - 3 });
    await append(db, ['early']);
    await admin().resync(fromId, { who: 'spec', dryRun: false });
    expect((await admin().status()).pending).to.equal(written - 3 + 1);
    expect((await listPendingEvents(db, { limit: 100 })).length).to.equal(written - 3 + 1);

    const broker = createMemoryBroker();
    relays.startMain('b', broker);
    await append(db, ['late']);
    const wanted = [...range(3, written), 'early', 'late'];
    await eventually(() => expect(firstSeen(broker)).to.deep.equal(wanted));
    await append(db, ['later']);
    await eventually(() => expect(broker.keys).to.deep.equal([...wanted, 'later']));
    await eventually(async () => expect((await admin().status()).pending).to.equal(0));
    expect(await listPendingEvents(db, { limit: 100 })).to.deep.equal([]);
    expect(await ask(`select array_agg(distinct state) as answer from outbox_event_state`)).to.deep.equal([
      'sent',
    ]);
  });

  it('costs nothing afterwards: no cursor row and no look at a restored row while nothing is new', async () => {
    const broker = createMemoryBroker();
    relays.startMain('c', broker);
    await append(db, ['quiet']);
    await eventually(() => expect(broker.keys).to.deep.equal(['quiet']));
    await eventually(async () => expect((await admin().status()).pending).to.equal(0));
    const cursorRows = 'select count(*) as answer from outbox_cursor';
    const looks = `select idx_tup_read as answer from pg_stat_user_indexes where indexrelname = 'outbox_tx_id'`;
    const scans = `select idx_scan as answer from pg_stat_user_indexes where indexrelname = 'outbox_tx_id'`;
    const [rowsBefore, looksBefore] = [await ask<number>(cursorRows), await ask<number>(looks)];
    const scansBefore = await ask<number>(scans);
    // Polls are seen in the statistics of their connections, by and by.
    await eventually(async () => {
      await db.execute({ name: 'spec-flush', text: 'select pg_stat_force_next_flush()' });
      expect(await ask<number>(scans)).to.be.greaterThan(scansBefore + 40);
    });
    expect(await ask<number>(cursorRows)).to.equal(rowsBefore);
    // Not even one walk over the restored rows in so many polls.
    expect((await ask<number>(looks)) - looksBefore).to.be.lessThan(written);
  });

  it('is whole for a rebuild, which reads it from its beginning', async () => {
    const [end] = await db.execute<{ id: number; now: string; types: string[] }>({
      name: 'spec-end',
      text: `select max(id) as id, pg_current_snapshot()::text as now, array_agg(distinct event_type) as types from outbox`,
    });
    if (!end) throw new Error('The journal has an end');
    const read = async (from: string): Promise<number> => {
      const delta = { from, to: end.now, firstId: 1, finalId: end.id };
      const request = { delta, fromId: 1, eventTypes: end.types, rowsMax: 1000 };
      return (await readJournalPage(db, request)).rows.starts.length;
    };
    expect(await read('1:1:')).to.equal(await ask('select count(*) as answer from outbox'));
    expect(await read(end.now)).to.equal(0);
  });

  it('is divided into shards in the middle of publishing it again, and all of it gets through', async () => {
    const broker = createMemoryBroker();
    await admin().resync(1, { who: 'spec', dryRun: false });
    await reshard(db, { shards: 2, who: 'spec' });
    relays.startShards('d', broker);
    const all = await ask<string[]>('select array_agg(partition_key order by id) as answer from outbox');
    await eventually(() => expect([...broker.keys].sort()).to.deep.equal([...all].sort()));
    await eventually(async () => expect((await admin().status()).pending).to.equal(0));
  });
});
