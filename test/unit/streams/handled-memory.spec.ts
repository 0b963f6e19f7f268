import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import type { StateStore } from '../../../src/streams/ports.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import type { TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import { asRecord, driverOf, fact, facts } from '../../support/json-stream.ts';

const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;
const bucketMs = 10_000;

/** A store that counts the ids that are read from it. */
const counting = (store: MemoryStateStore): { readonly seen: StateStore; readonly loads: number[] } => {
  const loads: number[] = [];
  const seen: StateStore = {
    loadPlaces: (...given) => store.loadPlaces(...given),
    loadStates: (...given) => store.loadStates(...given),
    findDue: (...given) => store.findDue(...given),
    loadChanged: (...given) => store.loadChanged(...given),
    commit: (batch) => store.commit(batch),
    loadHandled: async (...given) => {
      const found = await store.loadHandled(...given);
      loads.push(found.reduce((sum, { length }) => sum + length, 0));
      return found;
    },
  };
  return { seen, loads };
};

const scene = (handledIdsMax: number) => {
  const store = new MemoryStateStore();
  const { seen, loads } = counting(store);
  const driver = driverOf(
    (t) => {
      t.stream(facts).groupByKey().count(counts, 'seen', { action: 'SEEN' });
    },
    { store, seenStore: seen, partitions: 12, settings: { handledIdsMax } },
  );
  return { driver, store, loads };
};

/** As many records as in a second, over all partitions, all in one stretch of time. */
const sendSecond = (driver: TopologyTestDriver, records: number, time = 1_000_000): void => {
  for (let index = 0; index < records; index++)
    driver.send('facts', asRecord(fact({ id: uuidv7(), of: `k${index % 50}`, time })));
};

describe('what a lane remembers of handled ids', () => {
  it('is not read again with every batch where a stretch of time has more ids than are to be remembered', async () => {
    const { driver, loads } = scene(100);
    for (let second = 0; second < 10; second++) {
      sendSecond(driver, 200);
      await driver.run();
    }
    // Each stretch of each partition once, when there was nothing in it; 2,000 ids are in use at the end.
    expect(loads.reduce((sum, count) => sum + count, 0)).to.equal(0);
    expect(loads.length).to.be.lessThanOrEqual(12);
  });

  it('lets go of what has not been used for a while', async () => {
    const { driver, loads } = scene(100);
    for (let stretch = 0; stretch < 40; stretch++) {
      sendSecond(driver, 100, 1_000_000 + stretch * bucketMs);
      await driver.run();
    }
    const before = loads.length;
    sendSecond(driver, 1, 1_000_000);
    await driver.run();
    expect(loads.slice(before).length).to.equal(1);
    expect(loads.at(-1)).to.be.greaterThan(0);
  });
});
