import { BatchRun } from './batch-run.ts';
import { idAt } from './derived-id.ts';
import { compileNode, nextOf, type Origin, type StepContext } from './graph.ts';
import { PipedRecords } from './piped-records.ts';
import type { Place } from './record.ts';
import type { CounterRow, CounterTable } from './tables.ts';
import { nodesOfTopology, type Topology } from './topology.ts';

/** What one record does, where nothing has been before it. */
export type RecordEffect =
  | {
      readonly does: 'count';
      readonly table: string;
      readonly key: string;
      /** Null for a row that is only made sure of. */
      readonly column: string | null;
      readonly by: number;
      /** How many windows it counts in; 0 where there are none. */
      readonly windows: number;
      /** The fact that counts once; null where every event counts. */
      readonly once: string | null;
    }
  | { readonly does: 'keep'; readonly state: string; readonly key: string; readonly value: unknown }
  | { readonly does: 'derive'; readonly destination: string; readonly key: string; readonly value: unknown }
  | { readonly does: 'call'; readonly name: string; readonly values: number }
  /** It needs something to have been before it. */
  | { readonly does: 'fail'; readonly reason: string };

/** Runs one record through a topology and tells what comes of it. RxJS operators take their time and are left out. */
export const effectsOf = (
  topology: Topology,
  place: Place,
  record: Origin & { readonly key: string | null; readonly value: unknown },
): readonly RecordEffect[] => {
  const run = new BatchRun({ find: () => ({ value: undefined }) });
  const at = {
    run,
    place,
    origin: record,
    placeTimeMs: record.timeMs,
    task: { streamTimeMs: record.timeMs },
    nowMs: record.timeMs,
    derivedFrom: new Map(),
    piped: new PipedRecords(),
    keepsHeld: false,
    handsOnHeld: false,
    postponesTimers: false,
    onTimerFailure: (error: Error) => {
      throw error;
    },
  };
  try {
    for (const { topic, node } of topology.sources) {
      if (topic === place.topic) compileNode(node)(record.key, record.value, at);
    }
    handOnDue(topology, at);
  } catch (error) {
    return [{ does: 'fail', reason: (error as Error).message }];
  }
  return [
    ...run.deltas.flatMap(({ table, rows }) => countsOf(table, rows, null)),
    ...run.facts.flatMap(({ fact, adds }) => {
      const once = `${fact.aggregateType}/${fact.aggregateId}/${fact.action}`;
      const tables = Map.groupBy(adds, (add) => add.table);
      return [...tables].flatMap(([table, own]) =>
        countsOf(
          table,
          own.map(({ row }) => row),
          once,
        ),
      );
    }),
    ...run.states.map(({ state, key, value }) => ({ does: 'keep' as const, state: state.name, key, value })),
    ...run.derived.map(({ destination, key, value }) => ({
      does: 'derive' as const,
      destination,
      key,
      value,
    })),
    ...[...run.calls].map(([{ name }, values]) => ({ does: 'call' as const, name, values: values.length })),
  ];
};

/** What is due at once, as early results of windows are. */
const handOnDue = (topology: Topology, at: StepContext): void => {
  const { timeMs: untilMs } = at.origin;
  for (const node of nodesOfTopology(topology)) {
    const { onDue, state } = node;
    if (!onDue || !state) continue;
    const next = nextOf(node);
    const due = at.run.states.filter(
      (change) => change.state.name === state.name && (change.dueAtMs ?? Number.POSITIVE_INFINITY) <= untilMs,
    );
    for (const { place, key, value } of due) {
      const left = onDue.close({
        key,
        value,
        untilMs,
        clocks: { streamTimeMs: untilMs, wallClockMs: Number.NEGATIVE_INFINITY },
        pass: () => {},
        drop: (dropped) => at.run.write({ place, state: dropped, key, value: undefined }),
        handOn: ({ name, timeMs, value: result, origin }) => {
          at.origin = origin ?? { id: idAt(timeMs, `${state.name} ${key} ${name}`), timeMs };
          next(key, result, at);
        },
      });
      at.run.write({ place, state, key, value: undefined, ...left });
    }
  }
};

/** A row per key and column; windows of one key are told by their number. */
const countsOf = (
  table: CounterTable,
  rows: readonly CounterRow[],
  once: string | null,
): readonly RecordEffect[] => {
  const byKey = Map.groupBy(rows, ({ key }) => key);
  return [...byKey].flatMap(([key, own]): RecordEffect[] => {
    const windows = own.filter(({ windowStartMs }) => windowStartMs !== undefined).length;
    const common = { does: 'count' as const, table: table.table, key, windows, once };
    const counted = table.columns.flatMap((column, index) => {
      const by = own[0]?.amounts[index] ?? 0;
      return by === 0 ? [] : [{ ...common, column, by }];
    });
    return counted.length > 0 ? counted : [{ ...common, column: null, by: 0 }];
  });
};
