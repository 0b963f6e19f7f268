import { expect } from 'chai';
import { describeTopology, drawTopology } from '../../../../src/streams/describe.ts';
import type { StateStore } from '../../../../src/streams/ports.ts';
import { MemoryStateStore } from '../../../../src/streams/testing/memory-state-store.ts';
import type { Reader } from '../../../../src/streams/testing/topology-test-driver.ts';
import type { TopologyBuilder } from '../../../../src/streams/topology.ts';
import { tumbling } from '../../../../src/streams/windows.ts';
import { asRecord, driverOf, type Fact, fact, facts, specTopology } from '../../../support/json-stream.ts';
import { keepLines } from '../../../support/logged-lines.ts';

const names = { topic: 'names' } as { readonly topic: string; readonly value?: Fact };
const partitions = 4;

/** What is called something is a row; "renamed" replaces it, "gone" takes it away, everything else says nothing of it. */
const rowOf = ({ kind, amount }: Fact): { name: string } | null | undefined => {
  if (kind === 'gone') return null;
  return kind === 'named' ? { name: `name ${amount}` } : undefined;
};

/** A record asks for the row that its kind names. */
const enrich =
  (rowsMax?: number) =>
  (t: TopologyBuilder): void => {
    const table = t.globalTable(names, 'names', { rowOf, ...(rowsMax !== undefined && { rowsMax }) });
    const stream = t.stream(facts);
    stream
      .leftJoin(
        table,
        ({ kind }) => (kind === 'nothing' ? null : kind),
        ({ of }, row) => `${of}: ${row?.name ?? '-'}`,
      )
      .to({ name: 'left' }, (text) => text);
    stream
      .join(
        table,
        ({ kind }) => kind,
        ({ of }, row) => `${of}: ${row.name}`,
      )
      .to({ name: 'inner' }, (text) => text);
  };

const outputOf = (store: MemoryStateStore, name: string) =>
  store.derived.filter(({ destination }) => destination === name).map(({ value }) => value);

describe('a global table', () => {
  const driver = (options: Parameters<typeof driverOf>[1] = {}) =>
    driverOf(enrich(), { partitions, ...options });
  const name = (driven: ReturnType<typeof driver>, of: string, amount: number, kind = 'named'): void =>
    void driven.send('names', asRecord(fact({ of, kind, amount })));
  const ask = (driven: ReturnType<typeof driver>, of: string, kind: string): void =>
    void driven.send('facts', asRecord(fact({ of, kind })));

  it('is looked up by any key, from every partition', async () => {
    const driven = driver();
    const keys = ['a', 'b', 'c', 'd', 'e'];
    for (const [index, key] of keys.entries()) name(driven, key, index);
    await driven.run();
    for (const of of keys) for (const kind of keys) ask(driven, of, kind);
    ask(driven, 'a', 'unknown');
    ask(driven, 'a', 'nothing');
    await driven.run();
    const wanted = keys.flatMap((of) => keys.map((_, index) => `${of}: name ${index}`));
    expect(outputOf(driven.store, 'inner')).to.have.members(wanted);
    expect(outputOf(driven.store, 'left')).to.have.members([...wanted, 'a: -', 'a: -']);
  });

  it('follows its rows: the latest counts, null takes one away, and what says nothing of it changes nothing', async () => {
    const driven = driver();
    for (const [amount, kind] of [
      [1, 'named'],
      [2, 'named'],
      [0, 'seen'],
      [0, 'gone'],
      [3, 'named'],
    ] as const) {
      name(driven, 'mill', amount, kind);
      await driven.run();
      ask(driven, 'x', 'mill');
      await driven.run();
      driven.restart();
    }
    expect(outputOf(driven.store, 'left')).to.deep.equal([
      'x: name 1',
      'x: name 2',
      'x: name 2',
      'x: -',
      'x: name 3',
    ]);
  });

  it('has the rows of a batch before anything of that batch looks them up, whatever partitions they are in', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const driven = driver({ seed });
      for (const key of ['a', 'b', 'c', 'd']) {
        ask(driven, key, 'd');
        name(driven, key, 1);
      }
      const reader = driven.newReader();
      await reader.assign();
      const reading = { batches: await everything(driven, reader), quiet: { places: new Map(), untilMs: 0 } };
      for (const round of await reader.turn(reading)) await reader.settle(round);
      expect(outputOf(driven.store, 'inner')).to.have.members(
        ['a', 'b', 'c', 'd'].map((of) => `${of}: name 1`),
      );
    }
  });

  /** All that was sent, in one batch. */
  const everything = async (driven: ReturnType<typeof driver>, reader: Reader) => {
    const batches = new Map<string, Awaited<ReturnType<Reader['read']>>['batches'][number]>();
    while (!reader.isDone) {
      for (const batch of (await reader.read()).batches) {
        const place = `${batch.topic} ${batch.partition}`;
        const before = batches.get(place);
        batches.set(
          place,
          before
            ? { ...before, records: [...before.records, ...batch.records], nextOffset: batch.nextOffset }
            : batch,
        );
      }
    }
    expect(driven.store.derived).to.have.length(0);
    return [...batches.values()];
  };

  it('is the same in every process, which asks the store for no row that its copy has', async () => {
    const driven = driver();
    const [owner, other] = [driven.newReader(), driven.newReader()];
    name(driven, 'mill', 1);
    await owner.runAll();
    ask(driven, 'x', 'mill');
    // It begins anew, as the other process has committed since; and asks the store for what its copy does not have.
    await other.runAll();
    expect(outputOf(driven.store, 'left')).to.deep.equal(['x: name 1']);

    const lookedUp = async (): Promise<unknown> => {
      const reading = driven.newReader(copyOnly(driven.store, seen));
      ask(driven, 'y', 'mill');
      await reading.runAll();
      return outputOf(driven.store, 'left').at(-1);
    };
    const seen: string[] = [];
    expect(await lookedUp()).to.equal('y: name 1');
    expect(seen, 'a row that the copy has is not asked for').to.deep.equal([]);
  });

  /** Tells which rows were asked for by key. */
  const copyOnly = (store: MemoryStateStore, seen: string[]): StateStore => ({
    loadPlaces: (...given) => store.loadPlaces(...given),
    loadHandled: (...given) => store.loadHandled(...given),
    loadChanged: (...given) => store.loadChanged(...given),
    findDue: (...given) => store.findDue(...given),
    commit: (batch) => store.commit(batch),
    loadStates: async (projection, requests) => {
      seen.push(...requests.flatMap(({ state, keys }) => keys.map((key) => `${state.name}/${key}`)));
      return store.loadStates(projection, requests);
    },
  });

  it('shows changes of other processes a second later, asking only for what has changed', async () => {
    const store = new MemoryStateStore();
    const asked: (string | undefined)[] = [];
    const driven = driver({
      store,
      seenStore: {
        ...copyOnly(store, []),
        loadChanged: (projection, request) => {
          asked.push(request.since);
          return store.loadChanged(projection, request);
        },
      },
    });
    const commitElsewhere = async (amount: number | undefined, key = 'mill'): Promise<void> => {
      const place = driven.placeFor('names', key);
      const value = amount === undefined ? undefined : { latest: { name: `name ${amount}` } };
      await store.commit({
        ...nothingDone,
        projection: { name: 'spec', version: 1 },
        states: [{ place, state: { name: 'names', rowsMax: 10 }, key, value }],
      });
    };
    const lookUp = async (key = 'mill'): Promise<unknown> => {
      ask(driven, 'x', key);
      await driven.run();
      return outputOf(store, 'left').at(-1);
    };
    await commitElsewhere(1);
    expect(await lookUp()).to.equal('x: name 1');
    await commitElsewhere(2);
    expect(await lookUp(), 'the copy is young enough').to.equal('x: name 1');
    driven.passTime(1000);
    expect(await lookUp()).to.equal('x: name 2');
    await commitElsewhere(undefined);
    driven.passTime(1000);
    expect(await lookUp()).to.equal('x: -');
    await commitElsewhere(3);
    expect(await lookUp(), 'that there was none is as young').to.equal('x: -');
    driven.passTime(1000);
    expect(await lookUp()).to.equal('x: name 3');
    // Rows that are new are not waited for.
    await commitElsewhere(4, 'new');
    expect(await lookUp('new')).to.equal('x: name 4');
    // Stores tell of what is gone for a day; a copy that slept longer begins anew.
    await commitElsewhere(undefined);
    driven.passTime(3_600_000);
    expect(await lookUp()).to.equal('x: -');
    expect(asked.map((since) => since !== undefined)).to.deep.equal([false, true, true, true, false]);
  });

  const nothingDone = {
    tasks: [],
    moves: [],
    handled: [],
    reopened: [],
    missed: [],
    facts: [],
    deltas: [],
    parked: [],
    derived: [],
  } as const;

  it('stops the projection when it has too many rows, loses nothing, and says what to do', async () => {
    const { log: logger, lines } = keepLines();
    const store = new MemoryStateStore();
    const small = driverOf(enrich(2), { partitions, store, logger });
    for (const key of ['a', 'b', 'c']) small.send('names', asRecord(fact({ of: key, kind: 'named' })));
    await small.run();
    small.send('facts', asRecord(fact({ of: 'x', kind: 'c' })));
    const reader = small.newReader();
    const stuck = reader.runAll().catch((error: Error) => error);
    while (!lines.some(({ msg }) => msg.startsWith('The projection waits'))) await new Promise(setImmediate);
    reader.kill();
    expect(await stuck).to.be.instanceOf(Error);
    const told = JSON.stringify(lines);
    expect(told).to.include('The global table names has more than 2 rows').and.include('Raise its rowsMax');
    expect(outputOf(store, 'left')).to.deep.equal([]);

    const large = driverOf(enrich(3), { partitions, store });
    small.shareTopicsWith(large);
    await large.run();
    expect(outputOf(store, 'left')).to.deep.equal(['x: name 1']);
    expect(large.deadLetters.length + small.deadLetters.length).to.equal(0);
  });

  it('moves no clock: rows of later times make nothing late', async () => {
    const driven = driverOf(
      (t) => {
        t.globalTable(names, 'names', { rowOf });
        t.stream(facts)
          .groupByKey()
          .windowedBy(tumbling({ sizeMs: 100, graceMs: 0 }))
          .aggregate('windows', { initial: 0, fold: (sum) => sum + 1 })
          .to({ name: 'windows' }, ({ value }) => value);
      },
      { partitions: 1 },
    );
    driven.send('names', asRecord(fact({ of: 'a', kind: 'named', time: 1_000_000 })));
    await driven.run();
    driven.send('facts', asRecord(fact({ time: 1000 })));
    await driven.run();
    await driven.advanceWallClock(10_000_000);
    expect([driven.lateRecords, outputOf(driven.store, 'windows')]).to.deep.equal([0, [1]]);
  });

  it('is drawn, with who looks into it', () => {
    const built = specTopology(enrich());
    expect(describeTopology(built)).to.include(
      'global table names, whole in every process (10000 rows at most)',
    );
    expect(describeTopology(built)).to.include('left join with names by a key of the value');
    expect(drawTopology(built)).to.match(/n2 -\.-> n\d/);
  });

  it('needs a topic of its own, and belongs to one topology', () => {
    expect(() =>
      specTopology((t) => {
        t.globalTable(names, 'names', { rowOf });
        t.stream(names).groupByKey();
      }),
    ).to.throw('names is the topic of a global table');
    expect(() =>
      specTopology((t) => {
        t.stream(names).groupByKey();
        t.globalTable(names, 'names', { rowOf });
      }),
    ).to.throw('Read it once, or in another topology');
    expect(() => specTopology((t) => t.globalTable(names, 'names', { rowOf, rowsMax: 0 }))).to.throw(
      'rowsMax',
    );
    expect(() =>
      specTopology((t) => {
        specTopology((other) => {
          const table = other.globalTable(names, 'names', { rowOf });
          t.stream(facts).join(
            table,
            ({ kind }) => kind,
            ({ of }) => of,
          );
        });
      }),
    ).to.throw('names is a global table of another topology than spec');
  });
});
