import { expect } from 'chai';
import fc from 'fast-check';
import { describeTopology, drawTopology } from '../../../../src/streams/describe.ts';
import type { BatchCommit, DerivedEvent } from '../../../../src/streams/ports.ts';
import type { Rekeyed } from '../../../../src/streams/repartition.ts';
import { MemoryStateStore } from '../../../../src/streams/testing/memory-state-store.ts';
import {
  createRandom,
  type Reader,
  TopologyTestDriver,
} from '../../../../src/streams/testing/topology-test-driver.ts';
import type { TopologyBuilder } from '../../../../src/streams/topology.ts';
import { crashing, isCrash, type StoreFaults } from '../../../support/crashing-store.ts';
import {
  asRecord,
  type Fact,
  fact,
  type facts,
  jsonDecoder,
  specTopology,
} from '../../../support/json-stream.ts';

/** A left row refers to the right row that its kind names. */
const lefts = { topic: 'lefts', key: 'leftId' } as typeof facts;
const rights = { topic: 'rights', key: 'rightId' } as typeof facts;
const repartition = {
  topic: 'rekeyed',
  read: (value: unknown) => (value as { readonly rekeyed: Rekeyed }).rekeyed,
};
const partitions = 4;

const referredBy = ({ kind }: Fact): string | null => (kind === 'nobody' ? null : kind);
const textOf = (left: Fact, right: Fact | undefined): string => `${left.amount}/${right?.amount ?? '-'}`;
/** Longer for the spec that wants it to be. */
const bounds = { subscribersMax: 100 };

const joinBoth = (t: TopologyBuilder): void => {
  const left = t
    .stream(lefts)
    .map((row) => (row.kind === 'deleted' ? null : row))
    .toTable('lefts');
  const right = t.table(rights, 'rights').filter(({ kind }) => kind !== 'deleted');
  left
    .join(right, referredBy, textOf, { name: 'inner', through: 'inner', ...bounds })
    .toStream()
    .to({ name: 'inner changes' }, (row) => row);
  left
    .leftJoin(right, referredBy, textOf, { name: 'outer', through: 'outer', ...bounds })
    .toStream()
    .to({ name: 'outer changes' }, (row) => row);
};

const built = specTopology(joinBoth, { repartition });

const isOnItsWay = ({ destination }: DerivedEvent): boolean => destination.startsWith('spec/');

/** Takes what was derived to its topic, in any order and some of it twice. */
class Relay {
  readonly #driver: TopologyTestDriver;
  readonly #random: () => number;
  #taken = 0;
  readonly #held: DerivedEvent[] = [];
  readonly #sent: DerivedEvent[] = [];

  constructor(driver: TopologyTestDriver, random: () => number) {
    this.#driver = driver;
    this.#random = random;
  }

  #look(): void {
    const { derived } = this.#driver.store;
    this.#held.push(...derived.slice(this.#taken).filter(isOnItsWay));
    this.#taken = derived.length;
  }

  /** Answers whether there was anything. */
  sendOne(): boolean {
    this.#look();
    const [event] = this.#held.splice(Math.floor(this.#random() * this.#held.length), 1);
    if (event) this.#send(event);
    return event !== undefined;
  }

  sendAgain(): void {
    const event = this.#sent[Math.floor(this.#random() * this.#sent.length)];
    if (event) this.#send(event);
  }

  #send(event: DerivedEvent): void {
    this.#sent.push(event);
    const { id, key, timeMs, value } = event;
    this.#driver.send('rekeyed', {
      key,
      value: Buffer.from(JSON.stringify({ id, time: timeMs, rekeyed: value })),
    });
  }
}

interface Sent {
  readonly topic: 'lefts' | 'rights';
  readonly value: Fact;
}

const latestOf = (sent: readonly Sent[], topic: Sent['topic']): ReadonlyMap<string, Fact> => {
  const rows = new Map<string, Fact>();
  for (const { topic: of, value } of sent) {
    if (of !== topic) continue;
    if (value.kind === 'deleted') rows.delete(value.of);
    else rows.set(value.of, value);
  }
  return rows;
};

/** A nested loop over what both tables have in the end. */
const expected = (sent: readonly Sent[]) => {
  const [left, right] = [latestOf(sent, 'lefts'), latestOf(sent, 'rights')];
  const inner: Record<string, string> = {};
  const outer: Record<string, string> = {};
  const subscribers: string[] = [];
  for (const [key, row] of left) {
    const wanted = referredBy(row);
    const other = wanted === null ? undefined : right.get(wanted);
    if (other) inner[key] = textOf(row, other);
    outer[key] = textOf(row, other);
    if (wanted !== null) subscribers.push(`${wanted} < ${key}`);
  }
  subscribers.sort();
  return {
    inner: sorted(inner),
    outer: sorted(outer),
    toldInner: sorted(inner),
    toldOuter: sorted(outer),
    innerSubscribers: subscribers,
    outerSubscribers: subscribers,
    leftStates: left.size,
    letters: 0,
  };
};

const sorted = <T>(rows: Readonly<Record<string, T>>): Record<string, T> =>
  Object.fromEntries(Object.entries(rows).sort());

const found = (store: MemoryStateStore, letters: number) => {
  const table = (name: string) =>
    sorted(
      Object.fromEntries(
        [...store.statesOf(name)].flatMap(([key, state]) => {
          const { latest } = state as { readonly latest?: string };
          return latest === undefined ? [] : [[key, latest]];
        }),
      ),
    );
  /** What somebody knows who has only followed the changes. */
  const told = (name: string) => {
    const rows = new Map<string, unknown>();
    for (const { destination, key, value } of store.derived) {
      if (destination !== `${name} changes`) continue;
      if (value === null) rows.delete(key);
      else rows.set(key, value);
    }
    return sorted(Object.fromEntries(rows));
  };
  const subscribers = (name: string) =>
    [...store.statesOf(`${name}/subscribers`)]
      .flatMap(([key, state]) =>
        Object.values((state as { subscribers: Record<string, string> }).subscribers).map(
          (leftKey) => `${key} < ${leftKey}`,
        ),
      )
      .sort();
  return {
    inner: table('inner'),
    outer: table('outer'),
    toldInner: told('inner'),
    toldOuter: told('outer'),
    innerSubscribers: subscribers('inner'),
    outerSubscribers: subscribers('outer'),
    leftStates: store.statesOf('inner').size,
    letters,
  };
};

/** A guard that is switched off. */
interface Planted {
  readonly faults?: StoreFaults;
  readonly changed?: (batch: BatchCommit) => BatchCommit;
}

/** Whatever answer comes later is taken for the newer one. */
const forgettingNumbers = ({ states, ...batch }: BatchCommit): BatchCommit => ({
  ...batch,
  states: states.map((change) => {
    const { answer } = (change.value ?? {}) as { readonly answer?: number };
    return answer ? { ...change, value: { ...(change.value as object), answer: 0.5 } } : change;
  }),
});

/** Several processes that believe in the same partitions, crashes, redelivery, and messages that come in any order. */
const settled = async (seed: number, { faults = {}, changed }: Planted = {}) => {
  const random = createRandom(seed);
  const upTo = (limit: number): number => Math.floor(random() * limit);
  const store = new MemoryStateStore();
  const settings = { handledIdsMax: 10, statesMax: 2 };
  const driver = new TopologyTestDriver({
    topology: built,
    decoder: jsonDecoder,
    store,
    seed,
    partitions,
    settings,
  });
  const newReader = (): Reader => {
    const reader: Reader = driver.newReader(
      crashing(store, { random, faults, kill: () => reader.kill(), ...(changed && { changed }) }),
    );
    return reader;
  };
  const relay = new Relay(driver, random);
  const readers: Reader[] = [newReader()];
  const sent: Sent[] = [];
  const send = (): void => {
    const topic = random() < 0.6 ? 'lefts' : 'rights';
    const isDeleted = random() < 0.2;
    const refersTo = random() < 0.15 ? 'nobody' : `r${upTo(4)}`;
    const value = fact({
      of: topic === 'lefts' ? `l${upTo(4)}` : `r${upTo(4)}`,
      kind: isDeleted ? 'deleted' : refersTo,
      amount: sent.length,
      time: 1000 + sent.length,
    });
    sent.push({ topic, value });
    driver.send(topic, asRecord(value));
  };
  const guarded = async (index: number): Promise<void> => {
    try {
      await readers[index]?.step();
    } catch (error) {
      if (!isCrash(error)) throw error;
      readers[index] = newReader();
    }
  };
  const any = (): number => upTo(readers.length);
  for (let turn = 0; turn < 80; turn++) {
    const chance = random();
    if (chance < 0.3) send();
    else if (chance < 0.5) relay.sendOne();
    else if (chance < 0.53) relay.sendAgain();
    else if (chance < 0.55) driver.redeliver();
    else if (chance < 0.58 && readers.length < 3) readers.push(newReader());
    else if (chance < 0.6) readers[any()] = newReader();
    else if (chance < 0.62) readers[any()]?.rewind();
    else if (chance < 0.7) await Promise.all([...new Set([any(), any()])].map((index) => guarded(index)));
    else await guarded(any());
  }
  driver.restart();
  do await driver.run();
  while (relay.sendOne());
  return { found: found(store, driver.deadLetters.length), expected: expected(sent) };
};

describe('a join by a foreign key', function () {
  this.timeout(300_000);

  it('comes to what a nested loop comes to, whatever crashes, comes again, overtakes, or believes to be alone (500 seeds)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 2 ** 31 }), async (seed) => {
        const result = await settled(seed);
        expect(result.found).to.deep.equal(result.expected);
      }),
      { numRuns: 500 },
    );
  });

  const guards: readonly (readonly [string, Planted])[] = [
    ['the handled ids', { faults: { withoutDedup: true } }],
    ['any fence', { faults: { withoutFence: true } }],
    ['the numbers of answers', { changed: forgettingNumbers }],
  ];
  for (const [guard, planted] of guards) {
    it(`does not without ${guard}`, async () => {
      for (let seed = 1; seed <= 300; seed++) {
        const result = await settled(seed, planted);
        if (JSON.stringify(result.found) !== JSON.stringify(result.expected)) return;
      }
      expect.fail('300 seeds, and no counterexample');
    });
  }

  const driverOf = (topology = built) =>
    new TopologyTestDriver({ topology, decoder: jsonDecoder, partitions, seed: 3 });
  const change = async (driver: TopologyTestDriver, topic: string, value: Partial<Fact>): Promise<void> => {
    driver.send(topic, asRecord(fact(value)));
    const relay = new Relay(driver, () => 0);
    do await driver.run();
    while (relay.sendOne());
  };
  const changesOf = (driver: TopologyTestDriver, name: string) =>
    driver.output.filter(({ destination }) => destination === name).map(({ value }) => value);

  it('follows the foreign key, tells of every change once, and of nothing that is not one', async () => {
    const driver = driverOf();
    await change(driver, 'lefts', { of: 'l', kind: 'a', amount: 1 });
    await change(driver, 'rights', { of: 'a', amount: 10 });
    await change(driver, 'rights', { of: 'b', amount: 20 });
    await change(driver, 'lefts', { of: 'l', kind: 'b', amount: 2 });
    await change(driver, 'rights', { of: 'a', amount: 11 });
    await change(driver, 'lefts', { of: 'l', kind: 'b', amount: 3 });
    await change(driver, 'lefts', { of: 'l', kind: 'nobody', amount: 4 });
    await change(driver, 'lefts', { of: 'l', kind: 'a', amount: 5 });
    await change(driver, 'rights', { of: 'a', kind: 'deleted' });
    await change(driver, 'lefts', { of: 'l', kind: 'deleted' });
    await change(driver, 'lefts', { of: 'never', kind: 'deleted' });
    expect(changesOf(driver, 'inner changes')).to.deep.equal(['1/10', '2/20', '3/20', null, '5/11', null]);
    expect(changesOf(driver, 'outer changes')).to.deep.equal([
      '1/-',
      '1/10',
      '2/20',
      '3/20',
      '4/-',
      '5/11',
      '5/-',
      null,
    ]);
  });

  it('asks for nothing when a row changes and refers to what it did', async () => {
    const driver = driverOf();
    await change(driver, 'rights', { of: 'a', amount: 10 });
    await change(driver, 'lefts', { of: 'l', kind: 'a', amount: 1 });
    const before = driver.output.filter(isOnItsWay).length;
    await change(driver, 'lefts', { of: 'l', kind: 'a', amount: 2 });
    expect(driver.output.filter(isOnItsWay)).to.have.length(before);
  });

  it('fails with what to do when too many rows refer to one', async () => {
    const small = specTopology(
      (t) => {
        t.table(lefts, 'lefts').join(t.table(rights, 'rights'), referredBy, textOf, {
          name: 'few',
          through: 'few',
          subscribersMax: 2,
        });
      },
      { repartition },
    );
    const driver = driverOf(small);
    for (const key of ['x', 'y', 'z']) await change(driver, 'lefts', { of: key, kind: 'a' });
    expect(driver.deadLetters.map(({ error }) => error.message)).to.deep.equal([
      '2 rows refer to a in the join few, and every change of it is told to all of them: raise its subscribersMax, or look the row up in a global table instead',
    ]);
  });

  it('is drawn, with both ways', () => {
    const text = describeTopology(built);
    expect(text).to.include('table inner, inner join of lefts and rights by a foreign key, through inner');
    expect(text).to.include('rows that refer to rights, for outer');
    expect(drawTopology(built)).to.include('by inner/asks').and.include('by inner/answers');
  });

  it('needs a topic to go through, and names of its own', () => {
    const joined = (t: TopologyBuilder, through: string, name: string) =>
      t
        .table(lefts, `${name} lefts`)
        .join(t.table(rights, `${name} rights`), referredBy, textOf, { name, through });
    expect(() => specTopology((t) => joined(t, 'x', 'one'))).to.throw(
      'say with repartition where x/asks goes through',
    );
    expect(() =>
      specTopology(
        (t) => {
          joined(t, 'x', 'one');
          joined(t, 'x', 'other');
        },
        { repartition },
      ),
    ).to.throw('two steps called x/asks');
    expect(() =>
      specTopology((t) => {
        t.table(lefts, 'lefts').join(t.table(rights, 'rights'), textOf, { name: 'both' });
      }),
    ).to.throw(
      'tables can be joined by a foreign key, with join(other, foreignKey, combine, { name, through })',
    );
  });
});
