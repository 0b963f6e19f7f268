import { expect } from 'chai';
import type { DueRequest, DueTimes, StateChange } from '../../../src/streams/ports.ts';
import type { StoreUnderTest } from '../state-store-contract.ts';
import {
  adding,
  at,
  batch,
  committed,
  contractTables,
  move,
  newProjection,
  paid,
  paidAdding,
  unique,
} from './batches.ts';

const { counters, windows, rows: readModel } = contractTables;
const first = [move(at(0), undefined, 1)];
const second = [move(at(0), 1, 2)];
const keysUpTo = (count: number, name: string): readonly string[] => {
  const prefix = unique(name);
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
};

export const describeFacts = (underTest: () => StoreUnderTest): void => {
  describe('facts', () => {
    it('count once, told twice in a batch, in a later batch and from another place', async () => {
      const { store, other, countsOf } = underTest();
      const projection = newProjection();
      const key = unique('product');
      const outcomes = [
        await store.commit(
          batch(projection, {
            moves: first,
            facts: [paidAdding('o1', key, 0, 2), paidAdding('o2', key, 0, 3), paidAdding('o1', key, 0, 2)],
          }),
        ),
        await store.commit(
          batch(projection, {
            moves: second,
            facts: [paidAdding('o2', key, 0, 3), paidAdding('o3', key, 0, 5)],
          }),
        ),
        await other.commit(
          batch(projection, { moves: [move(at(1), undefined, 1)], facts: [paidAdding('o3', key, 0, 5)] }),
        ),
      ];
      expect(outcomes).to.deep.equal([1, 1, 1].map((knownFacts) => ({ kind: 'committed', knownFacts })));
      expect(await countsOf(key)).to.deep.equal([0, 10]);
    });

    it('differ by aggregate, by action and by projection', async () => {
      const { store, countsOf } = underTest();
      const projection = newProjection();
      const key = unique('product');
      const add = { table: counters, row: { key, amounts: [1, 0] } };
      const facts = [
        { fact: paid('o1'), adds: [add] },
        { fact: { ...paid('o1'), action: 'PAYMENT_SEEN' }, adds: [add] },
        { fact: { ...paid('o1'), aggregateType: 'Payment' }, adds: [add] },
        { fact: paid('o1 '), adds: [add] },
      ];
      await store.commit(batch(projection, { moves: first, facts }));
      await store.commit(batch({ ...projection, version: 2 }, { moves: first, facts: facts.slice(0, 1) }));
      await store.commit(batch(newProjection(), { moves: first, facts: facts.slice(0, 1) }));
      expect(await countsOf(key)).to.deep.equal([6, 0]);
    });

    it('add to all their rows or to none, beside what is added anyway', async () => {
      const { store, countsOf } = underTest();
      const projection = newProjection();
      const [a = '', b = ''] = keysUpTo(2, 'product');
      const effect = {
        fact: paid('o1'),
        adds: [a, b, a].map((key) => ({ table: counters, row: { key, amounts: [0, 1] } })),
      };
      await store.commit(batch(projection, { moves: first, facts: [effect], deltas: [adding(a, 1, 0)] }));
      await store.commit(batch(projection, { moves: second, facts: [effect], deltas: [adding(a, 1, 0)] }));
      expect([await countsOf(a), await countsOf(b)]).to.deep.equal([
        [2, 2],
        [0, 1],
      ]);
    });

    it('count once when several batches tell them at the same time, in any order', async () => {
      const { store, other, countsOf } = underTest();
      const projection = newProjection();
      const key = unique('product');
      const facts = keysUpTo(1000, 'order').map((orderId) => paidAdding(orderId, key, 0, 1));
      const outcomes = await Promise.all(
        Array.from({ length: 6 }, (_, partition) =>
          (partition % 2 === 0 ? store : other).commit(
            batch(projection, {
              moves: [move(at(partition), undefined, 1)],
              facts: partition % 3 === 0 ? facts.toReversed() : facts,
            }),
          ),
        ),
      );
      const known = outcomes.map((outcome) => (outcome.kind === 'committed' ? outcome.knownFacts : 0));
      expect(known.reduce((sum, count) => sum + count, 0)).to.equal(5000);
      expect(await countsOf(key)).to.deep.equal([0, 1000]);
    });
  });
};

export const describeCounters = (underTest: () => StoreUnderTest): void => {
  describe('counters', () => {
    it('add up, also downwards and with rows that come twice', async () => {
      const { store, countsOf } = underTest();
      const projection = newProjection();
      const [a = '', b = ''] = keysUpTo(2, 'product');
      await store.commit(
        batch(projection, { moves: first, deltas: [adding(a, 1, 5), adding(b, 1, 0), adding(a, 2, 0)] }),
      );
      await store.commit(batch(projection, { moves: second, deltas: [adding(a, -2, -1), adding(b, 0, 1)] }));
      expect([await countsOf(a), await countsOf(b)]).to.deep.equal([
        [1, 4],
        [1, 1],
      ]);
    });

    it('have a row of zeros where one is asked for', async () => {
      const { store, countsOf } = underTest();
      const projection = newProjection();
      const key = unique('product');
      await store.commit(batch(projection, { moves: first, deltas: [adding(key, 0, 0)] }));
      expect(await countsOf(key)).to.deep.equal([0, 0]);
      await store.commit(batch(projection, { moves: second, deltas: [adding(key, 1, 0)] }));
      await store.commit(batch(projection, { moves: [move(at(0), 2, 3)], deltas: [adding(key, 0, 0)] }));
      expect(await countsOf(key)).to.deep.equal([1, 0]);
    });

    it('count by window', async () => {
      const { store, readCounters } = underTest();
      const projection = newProjection();
      const key = unique('product');
      const row = (windowStartMs: number, seen: number) => ({ key, windowStartMs, amounts: [seen] });
      const [earlier, later] = [1_699_999_980_000, 1_700_000_040_001];
      await store.commit(
        batch(projection, {
          moves: first,
          deltas: [{ table: windows, rows: [row(later, 1), row(earlier, 2)] }],
        }),
      );
      await store.commit(
        batch(projection, { moves: second, deltas: [{ table: windows, rows: [row(later, 4)] }] }),
      );
      const rows = (await readCounters(windows)).filter((counted) => counted.key === key);
      expect(rows.toSorted((x, y) => (x.windowStartMs ?? 0) - (y.windowStartMs ?? 0))).to.deep.equal([
        row(earlier, 2),
        row(later, 5),
      ]);
    });

    it('take the same rows from several batches at once, in any order', async () => {
      const { store, other, readCounters } = underTest();
      const projection = newProjection();
      // So many that the batches meet in the middle of it.
      const keys = keysUpTo(1000, 'hot');
      const start = batch(projection, {
        moves: [move(at(99), undefined, 1)],
        deltas: keys.map((key) => adding(key, 0, 10)),
      });
      const hot = new Set(keys);
      await store.commit(start);
      await Promise.all(
        Array.from({ length: 8 }, (_, partition) =>
          (partition % 2 === 0 ? store : other).commit(
            batch(projection, {
              moves: [move(at(partition), undefined, 1)],
              deltas: (partition % 3 === 0 ? keys.toReversed() : keys).map((key) => adding(key, 1, -1)),
            }),
          ),
        ),
      );
      const rows = (await readCounters(counters)).filter(({ key }) => hot.has(key));
      expect(rows.map(({ amounts }) => amounts)).to.deep.equal(keys.map(() => [8, 2]));
    });
  });
};

export const describeStates = (
  underTest: () => StoreUnderTest,
  { keepsTables }: { readonly keepsTables: boolean },
): void => {
  const change = (
    name: string,
    key: string,
    value: unknown,
    rest: Partial<StateChange> = {},
  ): StateChange => ({
    place: at(0),
    state: { name },
    key,
    value,
    ...rest,
  });

  describe('states', () => {
    it('are found by name and key, in the order asked', async () => {
      const { store, other } = underTest();
      const projection = newProjection();
      const values = { list: [1, 'two', { three: null }], text: 'Größe "x" \\ \n', number: -0.5, none: null };
      await store.commit(
        batch(projection, {
          moves: first,
          states: [
            ...Object.entries(values).map(([key, value]) => change('a', key, value)),
            change('b', 'list', true),
          ],
        }),
      );
      const requests = [
        { state: { name: 'b' }, keys: ['list', 'text'] },
        { state: { name: 'a' }, keys: ['number', 'list', 'none', 'text', 'missing'] },
        { state: { name: 'c' }, keys: ['list'] },
        { state: { name: 'a' }, keys: [] },
      ];
      for (const asked of [store, other]) {
        const loaded = await asked.loadStates(projection, requests);
        expect(loaded.map((found) => Object.fromEntries(found))).to.deep.equal([
          { list: true },
          values,
          {},
          {},
        ]);
      }
      const elsewhere = await store.loadStates({ ...projection, version: 2 }, requests);
      expect(elsewhere.map(({ size }) => size)).to.deep.equal([0, 0, 0, 0]);
    });

    it('are written over and taken away, the last change of a batch counting', async () => {
      const { store } = underTest();
      const projection = newProjection();
      await store.commit(
        batch(projection, {
          moves: first,
          states: ['a', 'b', 'c', 'd'].map((key) => change('s', key, { by: 1 })),
        }),
      );
      await store.commit(
        batch(projection, {
          moves: second,
          states: [
            change('s', 'a', { by: 2 }),
            change('s', 'b', undefined),
            change('s', 'c', { by: 2 }),
            change('s', 'c', undefined),
            change('s', 'd', undefined),
            change('s', 'd', { by: 3 }),
            change('s', 'never', undefined),
          ],
        }),
      );
      const [found] = await store.loadStates(projection, [
        { state: { name: 's' }, keys: ['a', 'b', 'c', 'd', 'never'] },
      ]);
      expect(Object.fromEntries(found ?? [])).to.deep.equal({ a: { by: 2 }, d: { by: 3 } });
    });

    const states = ['s'];

    it('are told when they are due, of one partition number over all topics, the earliest first and not too many', async () => {
      const { store } = underTest();
      const projection = newProjection();
      const dueAt = (key: string, dueAtMs: number, place = at(0)) =>
        change('s', key, { of: key }, { place, dueAtMs });
      await store.commit(
        batch(projection, {
          moves: first,
          states: [
            dueAt('c', 3000),
            dueAt('a', 1000),
            dueAt('elsewhere', 1000, at(1)),
            dueAt('b', 2000, at(0, 'likes')),
            dueAt('later', 3001),
            change('s', 'never', {}),
          ],
        }),
      );
      const due = async (untilMs: number, statesMax: number) =>
        (await store.findDue(projection, { partition: 0, untilMs, statesMax, states })).map(({ key }) => key);
      expect(await due(3000, 10)).to.deep.equal(['a', 'b', 'c']);
      expect(await due(2999, 10)).to.deep.equal(['a', 'b']);
      expect(await due(3000, 2)).to.deep.equal(['a', 'b']);
      expect(await due(999, 2)).to.deep.equal([]);
      expect(
        await store.findDue(projection, { partition: 1, untilMs: 5000, statesMax: 10, states }),
      ).to.deep.equal([{ state: 's', key: 'elsewhere', value: { of: 'elsewhere' }, dueAtMs: 1000 }]);
    });

    it('are told when they are due of the steps that are asked for, or of all others', async () => {
      const { store } = underTest();
      const projection = newProjection();
      const dueAt = (state: string, key: string) => change(state, key, {}, { dueAtMs: 1000 });
      await store.commit(
        batch(projection, {
          moves: first,
          states: [dueAt('renamed', 'a'), dueAt('renamed', 'b'), dueAt('s', 'c'), dueAt('t', 'd')],
        }),
      );
      const request = { partition: 0, untilMs: 5000, states: ['s', 't', 'unused'] };
      const keysOf = async (more: { statesMax: number; others?: boolean }) =>
        (await store.findDue(projection, { ...request, ...more })).map(({ key }) => key);
      expect(await keysOf({ statesMax: 2 })).to.deep.equal(['c', 'd']);
      expect(await keysOf({ statesMax: 1, others: true })).to.deep.equal(['a']);
      expect(await keysOf({ statesMax: 9, others: true })).to.deep.equal(['a', 'b']);
      const ever = { ...request, untilMs: Number.POSITIVE_INFINITY, statesMax: 9 };
      expect(await store.findDue(projection, ever)).to.have.length(2);
    });

    it('are due by the clock that they go by, or by either, each once', async () => {
      const { store } = underTest();
      const projection = newProjection();
      const by = (key: string, times: DueTimes) => change('s', key, { of: key }, times);
      await store.commit(
        batch(projection, {
          moves: first,
          states: [
            by('either', { dueAtMs: 3000 }),
            by('stream', { streamDueAtMs: 2000 }),
            by('clock', { clockDueAtMs: 1000 }),
            by('both', { streamDueAtMs: 4000, clockDueAtMs: 2500 }),
            by('never', {}),
          ],
        }),
      );
      const due = async (until: Partial<DueRequest>) =>
        (await store.findDue(projection, { partition: 0, untilMs: 0, statesMax: 10, states, ...until })).map(
          ({ key, dueAtMs }) => [key, dueAtMs],
        );
      expect(await due({ untilMs: 9000 })).to.deep.equal([['either', 3000]]);
      expect(await due({ streamTimeMs: 4000, wallClockMs: Number.NEGATIVE_INFINITY })).to.deep.equal([
        ['stream', 2000],
        ['both', 4000],
      ]);
      expect(await due({ wallClockMs: 2500 })).to.deep.equal([
        ['clock', 1000],
        ['both', 2500],
      ]);
      const all = { untilMs: 9000, streamTimeMs: 9000, wallClockMs: 9000 };
      const inOrder = [
        ['clock', 1000],
        ['stream', 2000],
        ['both', 2500],
        ['either', 3000],
      ];
      expect(await due(all)).to.deep.equal(inOrder);
      expect(await due({ ...all, statesMax: 3 })).to.deep.equal(inOrder.slice(0, 3));
    });

    it('are due again only when they say so', async () => {
      const { store } = underTest();
      const projection = newProjection();
      const dueAt = (key: string, dueAtMs: number) => change('s', key, {}, { dueAtMs });
      await store.commit(
        batch(projection, { moves: first, states: ['a', 'b', 'c'].map((key) => dueAt(key, 1000)) }),
      );
      await store.commit(
        batch(projection, {
          moves: second,
          states: [change('s', 'a', undefined), change('s', 'b', {}), dueAt('c', 4000)],
        }),
      );
      const due = await store.findDue(projection, { partition: 0, untilMs: 5000, statesMax: 10, states });
      expect(due.map(({ key, dueAtMs }) => [key, dueAtMs])).to.deep.equal([['c', 4000]]);
    });

    if (keepsTables) describeRowStates(underTest);
  });
};

const describeRowStates = (underTest: () => StoreUnderTest): void => {
  const state = { name: 'orders', table: readModel };
  const change = (key: string, value: unknown): StateChange => ({ place: at(0), state, key, value });

  it('with a table are rows of it', async () => {
    const { store, other, readRows } = underTest();
    const projection = newProjection();
    const [a = '', b = '', c = ''] = keysUpTo(3, 'order');
    const row = (name: string | null, amount: number, parts: unknown) => ({ name, amount, parts });
    const outcome = await store.commit(
      batch(projection, {
        moves: first,
        states: [
          change(b, row('before', 1, [])),
          change(a, row(null, -7, { list: ['"', 1.5], none: null })),
          change(c, row('gone', 1, null)),
        ],
      }),
    );
    expect(outcome).to.deep.equal(committed);
    await store.commit(
      batch(projection, {
        moves: second,
        states: [change(c, undefined), change(b, row('after', 9_007_199_254_740_991, ['x']))],
      }),
    );
    const expected = new Map([
      [a, row(null, -7, { list: ['"', 1.5], none: null })],
      [b, row('after', 9_007_199_254_740_991, ['x'])],
    ]);
    const [found] = await other.loadStates(projection, [{ state, keys: [c, b, a] }]);
    expect(new Map([...(found ?? [])].sort())).to.deep.equal(new Map([...expected].sort()));
    const rows = await readRows?.(readModel);
    expect([a, b, c].map((key) => rows?.get(key))).to.deep.equal([
      expected.get(a),
      expected.get(b),
      undefined,
    ]);
  });
};
