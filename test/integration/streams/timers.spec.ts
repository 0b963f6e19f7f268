import { expect } from 'chai';
import type { Database } from '../../../src/postgres/database.ts';
import type { RowTable } from '../../../src/streams/tables.ts';
import { TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import { createPostgresStateStore } from '../../../src/streams-postgres/postgres-state-store.ts';
import { asRecord, type Fact, fact, facts, jsonDecoder, specTopology } from '../../support/json-stream.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const table = {
  table: 'spec_timer',
  keyColumn: 'id',
  columns: ['records', 'fired'],
} as const satisfies RowTable;

interface Row {
  readonly records: number;
  readonly fired: readonly string[];
}

/** Counts records and timers in one store, and shows it as a row that goes away when nothing changes for a while. */
const built = (name: string) =>
  specTopology(
    (t) => {
      t.stream(facts)
        .process<Row, Row>('counted', {
          onRecord: ({ value: { kind, time } }, { store, schedule, forward }) => {
            const before = store.get() ?? { records: 0, fired: [] };
            const after = { ...before, records: before.records + 1 };
            store.put(after);
            forward(after);
            if (kind === 'stream-time' || kind === 'wall-clock')
              schedule({ name: kind, atMs: time + 100, by: kind });
          },
          onTimer: ({ name, atMs }, { store, forward }) => {
            const before = store.get() ?? { records: 0, fired: [] };
            const after = { ...before, fired: [...before.fired, `${name} ${atMs}`] };
            store.put(after);
            forward(after);
          },
        })
        .toTable('shown', { table, expireAfterMs: 10_000 });
    },
    { name },
  );

describe('timers and expiry in PostgreSQL', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(async () => {
    db = openTestDatabase(workspace());
    await db.execute({
      name: 'spec-create-timers',
      text: 'create table spec_timer (id text primary key, records integer not null, fired jsonb not null)',
    });
  });
  afterEach(() => db.execute({ name: 'spec-empty-timers', text: 'truncate spec_timer' }));

  const open = (name: string): TopologyTestDriver =>
    new TopologyTestDriver({
      topology: built(name),
      decoder: jsonDecoder,
      partitions: 1,
      startMs: 1000,
      seenStore: createPostgresStateStore({ database: db, appendDerived: async () => {} }),
    });
  const rows = () =>
    db.execute<Row & { id: string }>({
      name: 'spec-rows-of-timers',
      text: 'select id, records, fired from spec_timer order by id',
    });
  const dueTimes = (projection: string) =>
    db.execute<{ readonly state: string }>(
      {
        name: 'spec-due-times',
        text: `select state, key, due_at is not null as either, stream_due_at is not null as stream,
                    clock_due_at is not null as clock
             from projection_state where projection = $1 order by state, key`,
      },
      [projection],
    );
  const send = (driver: TopologyTestDriver, ...given: readonly Partial<Fact>[]): void => {
    for (const one of given) driver.send('facts', asRecord(fact({ kind: 'none', ...one })));
  };

  it('fire once by the clock they go by, over restarts and redelivery', async () => {
    const driver = open('timers-fire');
    send(driver, { time: 1000, kind: 'stream-time' }, { time: 1000, of: 'b', kind: 'wall-clock' });
    await driver.run();
    expect(await dueTimes('timers-fire')).to.deep.equal([
      { state: 'counted', key: 'a', either: false, stream: true, clock: false },
      { state: 'counted', key: 'b', either: false, stream: false, clock: true },
      { state: 'shown expiry', key: 'a', either: true, stream: false, clock: false },
      { state: 'shown expiry', key: 'b', either: true, stream: false, clock: false },
    ]);
    driver.restart();
    await driver.advanceWallClock(100);
    const [a, b] = await rows();
    expect([a?.fired, b?.fired]).to.deep.equal([[], ['wall-clock 1100']]);
    send(driver, { time: 1099, of: 'c' }, { time: 1100, of: 'c' });
    driver.redeliver();
    await driver.run();
    driver.restart();
    await driver.advanceWallClock(100);
    expect(await rows()).to.deep.equal([
      { id: 'a', records: 1, fired: ['stream-time 1100'] },
      { id: 'b', records: 1, fired: ['wall-clock 1100'] },
      { id: 'c', records: 2, fired: [] },
    ]);
  });

  it('fire once where two processes believe in the task', async () => {
    const driver = open('timers-two');
    send(driver, { time: 1000, kind: 'wall-clock' });
    await driver.run();
    driver.passTime(1000);
    const zombie = driver.newReader();
    const late = await zombie.computeTick();
    await driver.advanceWallClock(0);
    expect(late).not.to.equal(undefined);
    if (late) await zombie.settle(late);
    expect(await rows()).to.deep.equal([{ id: 'a', records: 1, fired: ['wall-clock 1100'] }]);
  });

  it('take rows away that have not changed for a while, with the times kept beside them', async () => {
    const driver = open('timers-expiry');
    send(driver, { time: 1000 }, { time: 6000, of: 'b' });
    await driver.run();
    send(driver, { time: 11_000, of: 'b' });
    await driver.run();
    expect((await rows()).map(({ id }) => id)).to.deep.equal(['b']);
    await driver.advanceWallClock(20_000);
    expect(await rows()).to.deep.equal([]);
    const left = await dueTimes('timers-expiry');
    expect(left.filter(({ state }) => state === 'shown expiry')).to.deep.equal([]);
  });

  it('are found by the clock they go by, however many wait for another', async () => {
    await db.execute({
      name: 'spec-many-states',
      text: `insert into projection_state (projection, version, state, key, topic, partition, value, due_at, stream_due_at, clock_due_at)
             select 'many', 1, 's', n::text, 't', 0, '{}',
                    case when n % 3 = 0 then to_timestamp(n) end, case when n % 3 = 1 then to_timestamp(n) end,
                    case when n % 3 = 2 then to_timestamp(n) end
             from generate_series(1, 30000) n`,
    });
    await db.execute({ name: 'spec-analyze', text: 'analyze projection_state' });
    const store = createPostgresStateStore({ database: db, appendDerived: async () => {} });
    const due = await store.findDue(
      { name: 'many', version: 1 },
      {
        partition: 0,
        untilMs: 6000,
        streamTimeMs: 30_000_000,
        wallClockMs: 5000,
        statesMax: 4,
        states: ['s'],
      },
    );
    expect(due.map(({ key }) => key)).to.deep.equal(['1', '2', '3', '4']);
  });
});
