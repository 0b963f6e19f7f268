import { expect } from 'chai';
import type { BatchCommit, BegunAnew, StateStore } from '../../../src/streams/ports.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import {
  createRandom,
  type DriverOptions,
  type TopologyTestDriver,
} from '../../../src/streams/testing/topology-test-driver.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../support/json-stream.ts';

const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;
const place = { topic: 'facts', partition: 0 };

const counting = (options: Partial<DriverOptions> = {}) => {
  const told: BegunAnew[] = [];
  const driver = driverOf(
    (t) => {
      t.stream(facts).groupByKey().count(counts, 'seen', { action: 'SEEN' });
    },
    { partitions: 1, observer: { begunAnew: (_, anew) => told.push(anew) }, ...options },
  );
  return { driver, told };
};

const send = (driver: TopologyTestDriver, count: number): readonly Fact[] => {
  const sent = Array.from({ length: count }, () => fact());
  for (const one of sent) driver.send('facts', asRecord(one));
  return sent;
};
const seen = (driver: TopologyTestDriver): unknown => driver.table('counts')[0]?.seen;
const checkpointOf = async (driver: TopologyTestDriver) => {
  const [state] = await driver.store.loadPlaces({ name: 'spec', version: 1 }, [place]);
  return state?.checkpoint?.nextOffset;
};

describe('a topic that is deleted and made anew', () => {
  it('is read from its beginning, and everything in it is applied', async () => {
    const { driver, told } = counting();
    send(driver, 50);
    await driver.run();
    driver.recreateTopic('facts');
    send(driver, 20);
    await driver.run();
    expect(seen(driver)).to.equal(70);
    expect(await checkpointOf(driver)).to.equal(20);
    expect(told).to.deep.equal([
      { ...place, logBreak: 'recreated', offsetBefore: 50, offset: 0, streamTimeMs: 1_000_000 },
    ]);
    expect(driver.store.logBreaks).to.have.length(1);
  });

  it('is recognized by a process that comes when it has grown past the checkpoint', async () => {
    const { driver } = counting();
    send(driver, 10);
    await driver.run();
    driver.recreateTopic('facts');
    send(driver, 60);
    driver.restart();
    await driver.run();
    expect(seen(driver)).to.equal(70);
  });

  it('brings nothing twice when everything is published again', async () => {
    const { driver } = counting();
    const before = send(driver, 30);
    await driver.run();
    driver.recreateTopic('facts');
    for (const one of before) driver.send('facts', asRecord(one));
    send(driver, 5);
    await driver.run();
    expect(seen(driver)).to.equal(35);
  });

  it('is begun anew once, though the answer to that commit is lost', async () => {
    const store = new MemoryStateStore();
    const { driver } = counting({
      store,
      seenStore: losingAnswers(store, ({ moves }) => moves.some(({ logBreak }) => logBreak)),
    });
    send(driver, 10);
    await driver.run();
    driver.recreateTopic('facts');
    send(driver, 15);
    await driver.run();
    expect(seen(driver)).to.equal(25);
    expect(await checkpointOf(driver)).to.equal(15);
    expect(store.logBreaks).to.have.length(1);
  });

  it('is begun anew by one process; another that holds on to the old one is fenced, and finds it as well', async () => {
    const fences: number[] = [];
    const { driver } = counting({ observer: { fenced: () => fences.push(1) } });
    send(driver, 10);
    await driver.run();
    send(driver, 10);
    const late = driver.newReader();
    let held = await late.computeNext();
    while (!held) held = await late.computeNext();
    driver.recreateTopic('facts');
    send(driver, 40);
    await driver.run();
    await late.settle(held);
    await late.runAll();
    expect(fences).to.have.length(1);
    // What it held was lost with the old topic: nobody has applied it.
    expect(seen(driver)).to.equal(50);
    expect(await checkpointOf(driver)).to.equal(40);
    expect(driver.store.logBreaks).to.have.length(1);
  });
});

describe('a log that has lost its end', () => {
  it('is read again from where it ends, and what takes the place of the lost is applied', async () => {
    const { driver, told } = counting();
    send(driver, 50);
    await driver.run();
    driver.truncate(place, 42);
    send(driver, 20);
    await driver.run();
    expect(seen(driver)).to.equal(70);
    expect(await checkpointOf(driver)).to.equal(62);
    expect(told.map(({ logBreak, offsetBefore, offset }) => [logBreak, offsetBefore, offset])).to.deep.equal([
      ['truncated', 50, 42],
    ]);
  });

  it('is read from its beginning where everything of the last epoch is lost, and nothing counts twice', async () => {
    const { driver, told } = counting();
    send(driver, 20);
    driver.truncate(place, 20);
    send(driver, 20);
    await driver.run();
    driver.truncate(place, 15);
    send(driver, 30);
    await driver.run();
    expect(seen(driver)).to.equal(70);
    expect(told.map(({ offset }) => offset)).to.deep.equal([0]);
  });

  it('goes on without a word where nothing that was read is lost', async () => {
    const { driver, told } = counting();
    send(driver, 20);
    await driver.run();
    const lost = send(driver, 20).length;
    driver.truncate(place, 20);
    send(driver, 30);
    await driver.run();
    expect(lost).to.equal(20);
    expect(seen(driver)).to.equal(50);
    expect(told).to.deep.equal([]);
  });
});

describe('logs that break again and again', () => {
  it('lose nothing that is in them, and count nothing twice', async () => {
    for (let seed = 1; seed <= 100; seed++) {
      const random = createRandom(seed);
      const store = new MemoryStateStore();
      const { driver } = counting({ seed, store, seenStore: losingAnswers(store, () => random() < 0.1) });
      const sent: Fact[] = [];
      for (let turn = 0; turn < 12; turn++) {
        sent.push(...send(driver, Math.floor(random() * 20)));
        const chance = random();
        if (chance < 0.2) driver.recreateTopic('facts');
        else if (chance < 0.5) driver.truncate(place, Math.floor(random() * 40));
        else if (chance < 0.6) driver.restart();
        else if (chance < 0.9) await driver.reader.step();
        else await driver.run();
      }
      // As relay resync does: everything that is committed is published again.
      for (const one of sent) driver.send('facts', asRecord(one));
      await driver.run();
      expect(seen(driver), `seed ${seed}`).to.equal(sent.length);
    }
  });
});

/** Commits, and then says that it is not known whether it did. */
const losingAnswers = (store: StateStore, isLost: (batch: BatchCommit) => boolean): StateStore => {
  const lost = new Set<unknown>();
  return {
    loadPlaces: (...asked) => store.loadPlaces(...asked),
    loadHandled: (...asked) => store.loadHandled(...asked),
    loadStates: (...asked) => store.loadStates(...asked),
    findDue: (...asked) => store.findDue(...asked),
    loadChanged: (...asked) => store.loadChanged(...asked),
    commit: async (batch) => {
      const outcome = await store.commit(batch);
      if (lost.has(batch) || !isLost(batch)) return outcome;
      lost.add(batch);
      throw new Error('The connection was cut');
    },
  };
};
