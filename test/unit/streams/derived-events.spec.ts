import { expect } from 'chai';
import { map as change, concatMap } from 'rxjs';
import { v7 as uuidv7 } from 'uuid';
import { appendDerived, type DerivedFact } from '../../../src/journal/append-derived.ts';
import { derivedId } from '../../../src/streams/derived-id.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import { tumbling } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../support/json-stream.ts';

const alarms = { name: 'alarms' };
const idsOf = (driver: ReturnType<typeof driverOf>): readonly string[] => driver.output.map(({ id }) => id);
const expectApart = (ids: readonly string[], count: number): void => {
  expect(ids).to.have.length(count);
  expect(new Set(ids).size).to.equal(count);
};

const twice = concatMap((record: { value: Fact; key: string | null; id: string; timeMs: number }) => [
  record,
  { ...record },
]);

describe('the ids of derived events', () => {
  it('differ for all that operators make of one record, also where it went to the same step before', async () => {
    const driver = driverOf((t) => {
      const stream = t.stream(facts);
      stream.merge(stream.pipe('twice', twice)).to(alarms, ({ of }) => of);
    });
    for (let index = 0; index < 5; index++) driver.send('facts', asRecord(fact()));
    await driver.run();
    expectApart(idsOf(driver), 15);
  });

  it('are the same whatever the batches are, and whichever operators come first', async () => {
    const sent = Array.from({ length: 30 }, (_, index) => fact({ amount: index % 3 }));
    const run = async (seed: number): Promise<readonly string[]> => {
      const driver = driverOf(
        (t) => {
          const stream = t.stream(facts);
          const some = stream.filter(({ amount }) => amount > 0).pipe('some', twice);
          const all = stream.pipe('all', twice);
          all.to(alarms, ({ of }) => of, { name: 'of-all' });
          some.to(alarms, ({ of }) => of, { name: 'of-some' });
        },
        { seed },
      );
      for (const value of sent) driver.send('facts', asRecord(value));
      await driver.run();
      return idsOf(driver).toSorted();
    };
    const first = await run(1);
    expectApart(first, 100);
    for (let seed = 2; seed < 8; seed++) expect(await run(seed)).to.deep.equal(first);
  });

  it('differ between two topologies that derive to one destination from one event', async () => {
    const source = fact();
    const ids = [];
    for (const name of ['one', 'other']) {
      const driver = driverOf((t) => t.stream(facts).to(alarms, ({ of }) => of), { built: { name } });
      driver.send('facts', asRecord(source));
      await driver.run();
      ids.push(...idsOf(driver));
    }
    expectApart(ids, 2);
  });

  it('differ between two windows of a key that close together', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .groupByKey()
        .windowedBy(tumbling({ sizeMs: 100, graceMs: 0 }))
        .aggregate('windows', { initial: 0, fold: (sum) => sum + 1 })
        .pipe(
          'same',
          change((record) => ({ ...record })),
        )
        .to(alarms, ({ value }) => value);
    });
    for (const time of [10, 110, 900]) driver.send('facts', asRecord(fact({ time })));
    await driver.run();
    expectApart(idsOf(driver), 2);
  });

  it('are refused when two steps of a topology would make the same', () => {
    expect(() =>
      driverOf((t) => {
        t.stream(facts).to(alarms, ({ of }) => of);
        t.stream(facts).to(alarms, ({ kind }) => kind);
      }),
    ).to.throw('spec has two steps called alarms that derive events: give one of them a name of its own');
  });

  it('that come twice in a batch fail the record: an event that came by two topics is not derived from twice', async () => {
    const driver = driverOf(
      (t) => {
        const others = { topic: 'others' } as typeof facts;
        t.stream(facts)
          .merge(t.stream(others))
          .to(alarms, ({ of }) => of);
      },
      { partitions: 1, seed: 2 },
    );
    const source = fact();
    driver.send('facts', asRecord(source));
    driver.send('others', asRecord(source));
    await driver.run();
    expectApart(idsOf(driver), 1);
    expect(driver.deadLetters.map(({ error }) => error.message)).to.deep.equal([
      `Two events for alarms that are derived from ${source.id} have one id: the event came by two topics, or RxJS operators gave its id to another record`,
    ]);
  });

  it('of records on their way to another key are those that earlier versions have stored', () => {
    expect(derivedId('01890a5d-ac96-774b-bcce-b302099a8057', 'spending/by-buyer', 0)).to.equal(
      '01890a5d-ac96-7678-b8e3-0d8d4a71662c',
    );
    expect(derivedId('01890a5d-ac96-774b-bcce-b302099a8057', 'spending/by-buyer', 1)).to.equal(
      '01890a5d-ac96-79e3-9b4e-ad63a3a1ddca',
    );
  });

  it('do not matter for what earlier versions have derived: their events are known as handled', async () => {
    const store = new MemoryStateStore();
    const source = fact();
    const projection = { name: 'spec', version: 1 };
    const former = { id: derivedId(source.id, 'alarms', 0), destination: 'alarms', key: 'a', value: 'a' };
    const bucketStartMs = Math.floor(source.time / 10_000) * 10_000;
    const driver = driverOf((t) => t.stream(facts).to(alarms, ({ of }) => of), { store, partitions: 1 });
    const place = { topic: 'facts', partition: 0 };
    await store.commit({
      projection,
      tasks: [],
      missed: [],
      reopened: [],
      moves: [
        {
          ...place,
          expectedOffset: undefined,
          nextOffset: 1,
          streamTimeMs: source.time,
          lateRecords: 0,
          earlyRecords: 0,
        },
      ],
      handled: [{ ...place, bucketStartMs, ids: [source.id] }],
      facts: [],
      deltas: [],
      states: [],
      parked: [],
      derived: [{ ...former, timeMs: source.time, causationId: source.id }],
    });
    driver.send('facts', asRecord(source));
    driver.redeliver();
    await driver.run();
    expect(idsOf(driver)).to.deep.equal([former.id]);
  });
});

describe('the journal', () => {
  it('takes no two derived events with one id in a batch, and says which event they come from', async () => {
    const tx = { execute: async () => [] } as unknown as Parameters<typeof appendDerived>[0];
    const event: DerivedFact['event'] = { type: 'RecordRekeyed', through: 't', key: 'k', value: '1' };
    const [id, causationId] = [uuidv7(), uuidv7()];
    const facts = [1, 2].map((timeMs) => ({ id, event, timeMs, causationId }));
    const error = await appendDerived(tx, 'spec', facts).catch((thrown: unknown) => thrown);
    expect((error as Error).message).to.equal(
      `Two events that are derived from ${causationId} have the id ${id}`,
    );
  });
});
