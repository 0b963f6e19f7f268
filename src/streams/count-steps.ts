import { follow, type StepContext, type TopologyNode } from './graph.ts';
import type { CountOptions, KCountableStream, KWindowedCounts } from './kstream.ts';
import type { CounterTable } from './tables.ts';
import { closesAtMs, type FixedWindows, windowStarts } from './windows.ts';

/** What can be done with a stream by any key: adding to rows. */
export const countsAfter = <V>(parent: TopologyNode): KCountableStream<V> => ({
  count: (table, column, options) =>
    void follow(parent, countNode<V>({ table, column, by: () => 1, ...options })),
  sum: (table, column, by, options) => void follow(parent, countNode<V>({ table, column, by, ...options })),
  toRow: (table) =>
    void follow(parent, {
      kind: 'row',
      label: `row of ${table.table}`,
      counts: { table },
      compile: () => (key, _value, at) => at.run.add(table, { key: keyOf(key, table) }, -1, 0),
    }),
  windowedBy: (windows) => windowedCounts<V>(parent, windows),
});

export const windowedCounts = <V>(parent: TopologyNode, windows: FixedWindows): KWindowedCounts<V> => ({
  count: (table, column, options) =>
    void follow(parent, countNode<V>({ table, column, by: () => 1, windows, ...options })),
  sum: (table, column, by, options) =>
    void follow(parent, countNode<V>({ table, column, by, windows, ...options })),
});

export const noCounts: KWindowedCounts<never> = {
  count: () => {
    throw new Error('Sessions and sliding windows have no fixed start to count by: use aggregate');
  },
  sum: () => {
    throw new Error('Sessions and sliding windows have no fixed start to sum by: use aggregate');
  },
};

const keyOf = (key: string | null, table: CounterTable): string => {
  if (key === null) throw new Error(`A record without a key has no row in ${table.table}`);
  return key;
};

interface Counting<V> extends CountOptions<V> {
  readonly table: CounterTable;
  readonly column: string;
  readonly by: (value: V) => number;
  readonly windows?: FixedWindows;
}

const countNode = <V>(counting: Counting<V>): Omit<TopologyNode, 'children'> => {
  const { table, column, by, action, once, windows } = counting;
  const index = table.columns.indexOf(column);
  if (index < 0) throw new Error(`${table.table} has no column ${column}`);
  if ((table.windowColumn === undefined) !== (windows === undefined))
    throw new Error(`${table.table} ${windows ? 'has no' : 'has a'} column for windows`);

  const add = (row: { key: string; windowStartMs?: number }, value: V, at: StepContext): void => {
    const amount = by(value);
    if (!Number.isSafeInteger(amount)) throw new RangeError(`${amount} cannot be added to ${column}`);
    if (!once) {
      at.run.add(table, row, index, amount);
      return;
    }
    const amounts = new Array<number>(table.columns.length).fill(0);
    amounts[index] = amount;
    at.run.addOnce({ ...once(value), action }, at, { table, row: { ...row, amounts } });
  };

  return {
    kind: 'count',
    label: `${table.table}.${column}`,
    counts: { table, column, action, isFact: once !== undefined },
    ...(windows && { windows }),
    compile: () =>
      windows
        ? (key, value, at) => {
            // Counted when it came.
            if (at.origin.isEarly) return at.run.noteMissed(at);
            // These rows are never handed on as final: how far other topics are makes no record late.
            const starts = windowStarts(windows, at.origin.timeMs).filter(
              (startMs) => closesAtMs(windows, { endMs: startMs + windows.sizeMs }) > at.placeTimeMs,
            );
            if (starts.length === 0) at.run.noteLate(at);
            for (const windowStartMs of starts)
              add({ key: keyOf(key, table), windowStartMs }, value as V, at);
          }
        : (key, value, at) => add({ key: keyOf(key, table) }, value as V, at),
  };
};
