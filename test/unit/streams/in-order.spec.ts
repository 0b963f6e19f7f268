import { expect } from 'chai';
import { concatMap } from 'rxjs';
import { skipVersion } from '../../../src/streams/in-order.ts';
import { type DeadLetter, RefusedData } from '../../../src/streams/ports.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import type { TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../support/json-stream.ts';

const sums = { table: 'sums', keyColumn: 'id', columns: ['sum'] } as const satisfies CounterTable;
const spec = { name: 'spec', version: 1 };

interface Poison {
  /** Versions on which a step behind `inOrder` fails. */
  readonly failing: Set<number>;
  /** Keys and versions whose events the database refuses. */
  readonly refused: Set<string>;
}

const scene = (
  options: { readonly withPipe?: boolean; readonly seed?: number; readonly retries?: number } = {},
) => {
  const poison: Poison = { failing: new Set(), refused: new Set() };
  const store = new MemoryStateStore({
    appendDerived: async (events) => {
      if (events.some(({ value }) => poison.refused.has(String(value))))
        throw new RefusedData('This event is refused');
    },
  });
  const driver = driverOf(
    (t) => {
      const inOrder = t
        .stream(facts)
        .map((value) => ({ ...value, version: value.amount }))
        .inOrder('versions', { version: ({ version }) => version });
      const stream = options.withPipe
        ? inOrder.pipe(
            'twice',
            concatMap((record) => [record]),
          )
        : inOrder;
      const checked = stream.map((value) => {
        if (poison.failing.has(value.version)) throw new Error(`Version ${value.version} is poison`);
        return value;
      });
      checked.groupByKey().sum(sums, 'sum', ({ version }) => version, { action: 'SUMMED' });
      checked.to({ name: 'versions' }, ({ of, version }) => `${of}${version}`);
    },
    {
      store,
      partitions: 1,
      seed: options.seed ?? 1,
      startMs: 1_000_000,
      built: { onFailure: { retries: options.retries ?? 0, backoffMs: 1, afterRetries: 'skip-record' } },
    },
  );
  return { driver, store, poison };
};

const sent = new WeakMap<TopologyTestDriver, Map<string, Fact>>();
const sendVersions = (driver: TopologyTestDriver, versions: readonly number[], of = 'a'): void => {
  const known = sent.get(driver) ?? new Map<string, Fact>();
  sent.set(driver, known);
  for (const amount of versions) {
    const value = known.get(`${of}${amount}`) ?? fact({ of, amount });
    known.set(`${of}${amount}`, value);
    driver.send('facts', asRecord(value));
  }
};

/** What came out, in order. */
const handedOn = ({ output }: TopologyTestDriver): readonly unknown[] => output.map(({ value }) => value);

const versionOf = ({ record }: DeadLetter): number => (JSON.parse(String(record.value)) as Fact).amount;

const lettersOf = ({ deadLetters }: TopologyTestDriver) =>
  deadLetters.map((letter) => ({
    kind: letter.kind,
    version: versionOf(letter),
    offset: letter.record.offset,
    message: letter.error.message,
  }));

const replay = (driver: TopologyTestDriver, { place, record }: DeadLetter): void => {
  driver.sendTo(place, {
    key: record.key?.toString() ?? null,
    value: record.value,
    replay: { id: 'replay', projection: 'spec', attempt: 1 },
  });
};

const skip = (store: MemoryStateStore, key: string, version?: number): void => {
  store.changeState(spec, { state: 'versions', key }, (value) => {
    const skipped = skipVersion(value, version);
    return skipped.outcome === 'skipped' ? skipped.state : undefined;
  });
};

describe('records in the order of their versions', () => {
  it('are handed on as the steps before have made them', async () => {
    const driver = driverOf((t) => {
      t.stream(facts)
        .map(({ of, amount }) => ({ name: `${of}${amount}`, amount }))
        .inOrder('versions', { version: ({ amount }) => amount })
        .to({ name: 'names' }, ({ name }) => name);
    });
    sendVersions(driver, [1, 3, 2]);
    await driver.run();
    expect(handedOn(driver)).to.deep.equal(['a1', 'a2', 'a3']);
  });

  describe('of which one is never going to come', () => {
    it('go on behind it once an operator has said so, in a projection that is idle', async () => {
      const { driver, store } = scene();
      sendVersions(driver, [1, 3, 4, 6]);
      await driver.run();
      skip(store, 'a');
      // The first look is fenced: the projection learns that an operator was there.
      await driver.advanceWallClock(1000);
      expect(handedOn(driver)).to.deep.equal(['a1']);
      await driver.advanceWallClock(1000);
      expect(handedOn(driver)).to.deep.equal(['a1', 'a3', 'a4']);
      expect(driver.table('versions')).to.deep.include.members([
        { key: 'a', next: 5, held: [driver.table('versions')[0]?.held].flat() },
      ]);
      sendVersions(driver, [5]);
      await driver.run();
      expect(handedOn(driver)).to.deep.equal(['a1', 'a3', 'a4', 'a5', 'a6']);
      expect(driver.table('sums')).to.deep.equal([{ id: 'a', sum: 19 }]);
    });

    it('go on in a projection that is never quiet', async () => {
      const { driver, store } = scene();
      sendVersions(driver, [1, 3]);
      await driver.run();
      skip(store, 'a');
      for (let round = 0; round < 5; round++) {
        sendVersions(driver, [1], `busy${round}`);
        driver.passTime(1000);
        await driver.reader.step();
      }
      expect(handedOn(driver)).to.include('a3');
    });

    it('go on after another process has taken over', async () => {
      const { driver, store } = scene();
      sendVersions(driver, [1, 3]);
      await driver.run();
      skip(store, 'a');
      driver.restart();
      await driver.advanceWallClock(1000);
      expect(handedOn(driver)).to.deep.equal(['a1', 'a3']);
    });

    it('pass over a version that was skipped before they came to it, unless it comes first', async () => {
      const { driver, store } = scene();
      sendVersions(driver, [1, 5]);
      await driver.run();
      skip(store, 'a', 3);
      skip(store, 'a', 4);
      driver.restart();
      sendVersions(driver, [4]);
      await driver.run();
      expect(handedOn(driver)).to.deep.equal(['a1']);
      sendVersions(driver, [2]);
      await driver.run();
      expect(handedOn(driver)).to.deep.equal(['a1', 'a2', 'a4', 'a5']);
    });

    it('refuse to skip what is here or was passed', () => {
      const held = (version: number) => ({ version, value: {}, id: 'x', timeMs: 0 });
      const state = { next: 3, held: [held(5), held(6)], skipped: [4] };
      expect(skipVersion(state, 2)).to.deep.equal({ outcome: 'passed', version: 2, next: 3 });
      expect(skipVersion(state, 4)).to.deep.equal({ outcome: 'passed', version: 4, next: 3 });
      expect(skipVersion(state, 5)).to.deep.equal({ outcome: 'held', version: 5, next: 3 });
      expect(skipVersion(state)).to.deep.include({ outcome: 'skipped', version: 3, released: 2, next: 7 });
      expect(skipVersion(state, 9)).to.deep.include({ outcome: 'skipped', version: 9, released: 0, next: 3 });
    });
  });

  for (const withPipe of [false, true]) {
    const how = withPipe ? ' behind RxJS operators' : '';

    it(`blame the one that fails when it is handed on, and not the one that it has waited for${how}`, async () => {
      const { driver, poison } = scene({ withPipe });
      poison.failing.add(3);
      sendVersions(driver, [1, 3, 4, 5]);
      await driver.run();
      sendVersions(driver, [2]);
      await driver.run();
      expect(lettersOf(driver)).to.deep.equal([
        { kind: 'failed', version: 3, offset: 1, message: 'Version 3 is poison' },
      ]);
      expect(handedOn(driver)).to.deep.equal(['a1', 'a2']);
      expect(driver.table('versions')[0]).to.include({ next: 3 });
    });
  }

  it('go on behind the one that failed when its letter is replayed', async () => {
    const { driver, poison } = scene();
    poison.failing.add(3);
    sendVersions(driver, [3, 4, 1]);
    await driver.run();
    sendVersions(driver, [2]);
    await driver.run();
    const [letter] = driver.deadLetters;
    if (!letter) throw new Error('There is no letter');
    poison.failing.clear();
    replay(driver, letter);
    replay(driver, letter);
    await driver.run();
    expect(handedOn(driver)).to.deep.equal(['a1', 'a2', 'a3', 'a4']);
    expect(driver.table('sums')).to.deep.equal([{ id: 'a', sum: 10 }]);
  });

  it('go on behind the one that failed when its version is skipped', async () => {
    const { driver, store, poison } = scene();
    poison.failing.add(3);
    sendVersions(driver, [1, 3, 4, 2]);
    await driver.run();
    skip(store, 'a', 3);
    driver.restart();
    await driver.advanceWallClock(1000);
    expect(handedOn(driver)).to.deep.equal(['a1', 'a2', 'a4']);
  });

  it('blame the one that fails when a version is skipped, where no record has brought it', async () => {
    const { driver, store, poison } = scene();
    poison.failing.add(3);
    sendVersions(driver, [1, 3, 4]);
    await driver.run();
    skip(store, 'a');
    driver.restart();
    await driver.advanceWallClock(1000);
    expect(lettersOf(driver).map(({ version }) => version)).to.deep.equal([3]);
    expect(driver.table('versions')[0]).to.include({ next: 3 });
  });

  it('blame the one that the database refuses, and not the one that it has waited for', async () => {
    const { driver, poison } = scene();
    sendVersions(driver, [1, 3, 4, 5]);
    sendVersions(driver, [1, 2], 'b');
    await driver.run();
    poison.refused.add('a4');
    sendVersions(driver, [2]);
    sendVersions(driver, [3], 'b');
    await driver.run();
    expect(lettersOf(driver)).to.deep.equal([
      { kind: 'refused', version: 4, offset: 2, message: 'This event is refused' },
    ]);
    expect(handedOn(driver)).to.have.members(['a1', 'b1', 'b2', 'a2', 'a3', 'b3']);
    poison.refused.clear();
    const [letter] = driver.deadLetters;
    if (letter) replay(driver, letter);
    await driver.run();
    expect(handedOn(driver).filter((name) => String(name).startsWith('a'))).to.deep.equal(
      [1, 2, 3, 4, 5].map((version) => `a${version}`),
    );
  });

  it('blame the record itself where it is refused', async () => {
    const { driver, poison } = scene();
    sendVersions(driver, [1, 3]);
    await driver.run();
    poison.refused.add('a2');
    sendVersions(driver, [2]);
    await driver.run();
    expect(lettersOf(driver).map(({ version }) => version)).to.deep.equal([2]);
    expect(driver.table('versions')[0]).to.include({ next: 2 });
  });

  it('try one that fails again, as any other', async () => {
    const { driver, poison } = scene({ retries: 2 });
    poison.failing.has = (version) => version === 3 && driver.pauses.length < 2;
    sendVersions(driver, [1, 3]);
    await driver.run();
    sendVersions(driver, [2]);
    await driver.run();
    expect(lettersOf(driver)).to.deep.equal([]);
    expect(handedOn(driver)).to.deep.equal(['a1', 'a2', 'a3']);
    expect(driver.pauses).to.have.length(2);
  });
});
