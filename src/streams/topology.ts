import { countsAfter, noCounts, windowedCounts } from './count-steps.ts';
import { type DerivingStep, derive } from './derive.ts';
import type { FailurePolicy } from './failure-policy.ts';
import { follow, nodesOf, type OutsideCall, type RecordOperator, type TopologyNode } from './graph.ts';
import type {
  Aggregation,
  KCountableStream,
  KGroupedStream,
  KStream,
  KTable,
  KWindowedStream,
  StreamOf,
} from './kstream.ts';
import type { Pipe } from './piped-records.ts';
import {
  aggregateNode,
  inOrderNode,
  joinNode,
  latestOf,
  reducedOf,
  reduceNode,
  tableNode,
  windowNode,
} from './stateful-steps.ts';

import type { RowTable, StateDefinition } from './tables.ts';
import type { Windows } from './windows.ts';

export interface TopologySource {
  readonly topic: string;
  readonly node: TopologyNode;
}

/** What to compute, as data; running it is the runtime's job. */
export interface Topology {
  readonly name: string;
  /** Counted up when the definition changes in a way that what was computed before does not fit any more. */
  readonly version: number;
  readonly onFailure: FailurePolicy;
  readonly sources: readonly TopologySource[];
}

export interface TopologyBuilder {
  stream<V>(source: StreamOf<V>): KStream<V>;
}

export interface TopologyOptions {
  readonly name: string;
  readonly version: number;
  readonly onFailure: FailurePolicy;
  /** The topic that records go through on their way to another key, and how its values are read. */
  readonly repartition?: { readonly topic: string; readonly read: (value: unknown) => Rekeyed };
}

export const topology = (options: TopologyOptions, define: (builder: TopologyBuilder) => void): Topology => {
  const sources: TopologySource[] = [];
  const open: OpenSource = (topic) => {
    const known = sources.find((source) => source.topic === topic);
    if (known) return known.node;
    const node: TopologyNode = { kind: 'source', label: topic, children: [], compile: (next) => next };
    sources.push({ topic, node });
    return node;
  };
  define({ stream: <V>({ topic }: StreamOf<V>) => streamAfter<V>(open(topic), { ...options, open }) });
  const built = { name: options.name, version: options.version, onFailure: options.onFailure, sources };
  requireNamesOnce(built);
  requireDerivingNamesOnce(built);
  return built;
};

export const topicsOf = ({ sources }: Topology): readonly string[] => sources.map(({ topic }) => topic);

export const nodesOfTopology = ({ sources }: Topology): readonly TopologyNode[] =>
  nodesOf(sources.map(({ node }) => node));

/** Two steps with one name would share their state. */
const requireNamesOnce = (built: Topology): void => {
  const names = nodesOfTopology(built).flatMap(({ state }) => (state ? [state.name] : []));
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new Error(`${built.name} has two states called ${twice}`);
};

/** Two steps with one name would give the same ids to different events. */
const requireDerivingNamesOnce = (built: Topology): void => {
  const names = nodesOfTopology(built).flatMap(({ derives }) => derives ?? []);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return;
  throw new Error(
    `${built.name} has two steps called ${twice} that derive events: give one of them a name of its own`,
  );
};

type OpenSource = (topic: string) => TopologyNode;
type BuildContext = TopologyOptions & { readonly open: OpenSource };

/** Functions are anonymous more often than not; a name says more than none. */
const labelOf = (kind: string, given: { readonly name: string }): string =>
  given.name ? `${kind} ${given.name}` : kind;

/** The node of a stream, for steps that take a second one. */
const nodeOf = new WeakMap<object, TopologyNode>();

const streamAfter = <V>(parent: TopologyNode, context: BuildContext): KStream<V> => {
  const then = <R>(node: Omit<TopologyNode, 'children'>): KStream<R> =>
    streamAfter<R>(follow(parent, node), context);

  const joined = <T, R>(
    table: KTable<T, unknown>,
    keepsUnmatched: boolean,
    combine: (value: V, row: T) => R,
  ): KStream<R> => {
    const kept = keptBy.get(table);
    if (!kept) throw new Error(`${table.name} is not a table of a topology`);
    return then(
      joinNode(
        { name: table.name, ...kept },
        { keepsUnmatched, combine: combine as (value: unknown, row: unknown) => unknown },
      ),
    );
  };

  const stream: KStream<V> = {
    filter: (keep: (value: V) => boolean) =>
      then<V>({
        kind: 'filter',
        label: labelOf('filter', keep),
        compile: (next) => (key, value, at) => {
          if (keep(value as V)) next(key, value, at);
        },
      }) as never,
    map: (change) =>
      then({
        kind: 'map',
        label: labelOf('map', change),
        compile: (next) => (key, value, at) => next(key, change(value as V), at),
      }),
    flatMap: (change) =>
      then({
        kind: 'flat-map',
        label: labelOf('flat map', change),
        compile: (next) => (key, value, at) => {
          for (const part of change(value as V)) next(key, part, at);
        },
      }),
    branch: (branches) => branchAfter(parent, context, branches),
    merge: (other) => {
      const second = nodeOf.get(other);
      if (!second) throw new Error('Only streams of a topology can be merged');
      const merged = follow(parent, { kind: 'merge', label: 'merge', compile: (next) => next });
      second.children.push(merged);
      return streamAfter(merged, context);
    },
    peek: (look) =>
      then({
        kind: 'peek',
        label: labelOf('peek', look),
        compile: (next) => (key, value, at) => {
          at.run.looks.push(() => look(value as V));
          next(key, value, at);
        },
      }),
    pipe: (name: string, ...operators: readonly unknown[]) =>
      then(pipeNode({ name, operators: operators as readonly RecordOperator[] })) as never,
    inOrder: (name, { version, ...limits }) =>
      then(inOrderNode(name, { version: version as (value: unknown) => number, ...limits })),
    groupByKey: () => groupedAfter<V>(parent, context),
    groupBy: (key: (value: V) => string, options?: { through: string }) =>
      (options ? repartitioned(parent, context, key, options.through) : regrouped(parent, key)) as never,
    toTable: (name) => tableAfter(follow(parent, tableNode(name)), context, latestOf),
    join: (table, combine) => joined(table, false, combine),
    leftJoin: (table, combine) => joined(table, true, combine as never),
    to: (destination, make, { name = destination.name } = {}) => {
      const step = { name, topology: context.name, destination: destination.name };
      follow(parent, toNode(step, make as (value: unknown) => unknown));
    },
    call: (name, perform) =>
      void follow(parent, callNode({ name, perform: perform as OutsideCall['perform'] })),
  };
  nodeOf.set(stream, parent);
  return stream;
};

const branchAfter = <V, Name extends string>(
  parent: TopologyNode,
  context: BuildContext,
  branches: Readonly<Record<Name, (value: V) => boolean>>,
): Readonly<Record<Name, KStream<V>>> => {
  const entries = Object.entries(branches) as [Name, (value: V) => boolean][];
  const streams = entries.map(([name, takes], index) => {
    const earlier = entries.slice(0, index).map(([, takesEarlier]) => takesEarlier);
    const node = follow(parent, {
      kind: 'branch',
      label: `branch ${name}`,
      compile: (next) => (key, value, at) => {
        if (!earlier.some((other) => other(value as V)) && takes(value as V)) next(key, value, at);
      },
    });
    return [name, streamAfter<V>(node, context)] as const;
  });
  return Object.fromEntries(streams) as Record<Name, KStream<V>>;
};

const pipeNode = (pipe: Pipe): Omit<TopologyNode, 'children'> => ({
  kind: 'pipe',
  label: pipe.name,
  compile: (next) => (key, value, at) =>
    at.piped.add(pipe, next, { key, value, id: at.origin.id, timeMs: at.origin.timeMs }, at),
});

const toNode = (step: DerivingStep, make: (value: unknown) => unknown): Omit<TopologyNode, 'children'> => ({
  kind: 'to',
  label: `to ${step.destination}`,
  destination: step.destination,
  derives: step.name,
  compile: () => (key, value, at) => {
    if (key === null) throw new Error(`A record without a key cannot go to ${step.destination}`);
    derive(step, { key, value: make(value) }, at);
  },
});

const callNode = (outside: OutsideCall): Omit<TopologyNode, 'children'> => ({
  kind: 'call',
  label: outside.name,
  compile: () => (_key, value, at) => at.run.call(outside, value),
});

const regrouped = <V>(parent: TopologyNode, key: (value: V) => string): KCountableStream<V> =>
  countsAfter<V>(
    follow(parent, {
      kind: 'group',
      label: labelOf('group by', key),
      compile: (next) => (_key, value, at) => next(key(value as V), value, at),
    }),
  );

/** What a repartition carries; the value has to be JSON. */
export interface Rekeyed {
  readonly through: string;
  readonly key: string;
  readonly value: unknown;
}

/** Out through the outbox under the new key, and in again from the topic, where that key has its partition. */
const repartitioned = <V>(
  parent: TopologyNode,
  context: BuildContext,
  key: (value: V) => string,
  through: string,
): KGroupedStream<V> => {
  const { repartition } = context;
  if (!repartition) throw new Error(`${context.name}: say with repartition where ${through} goes through`);
  const name = `${context.name}/${through}`;
  const step: DerivingStep = { name: through, topology: context.name, destination: name };
  follow(parent, {
    kind: 'repartition',
    label: `repartition ${through}`,
    destination: name,
    derives: through,
    compile: () => (_key, value, at) => {
      const rekeyed: Rekeyed = { through: name, key: key(value as V), value };
      derive(step, { key: rekeyed.key, value: rekeyed }, at);
    },
  });
  const source = context.open(repartition.topic);
  return groupedAfter<V>(
    follow(source, {
      kind: 'group',
      label: `by ${through}`,
      compile: (next) => (_key, value, at) => {
        const rekeyed = repartition.read(value);
        if (rekeyed.through === name) next(rekeyed.key, rekeyed.value, at);
      },
    }),
    context,
  );
};

const keptBy = new WeakMap<
  object,
  { readonly state: StateDefinition; readonly shownOf: (state: unknown) => unknown }
>();

const tableAfter = <S, Change = S>(
  node: TopologyNode,
  context: BuildContext,
  shownOf: (state: unknown) => unknown = (state) => state,
): KTable<S, Change> => {
  const { state } = node;
  if (!state) throw new Error(`${node.label} keeps no state`);
  const table: KTable<S, Change> = {
    name: state.name,
    toStream: () => streamAfter<Change>(node, context),
  };
  keptBy.set(table, { state, shownOf });
  return table;
};

const groupedAfter = <V>(parent: TopologyNode, context: BuildContext): KGroupedStream<V> => ({
  ...countsAfter<V>(parent),
  reduce: (name, combine) => tableAfter<V>(follow(parent, reduceNode(name, combine)), context, reducedOf),
  aggregate: <S>(name: string, options: Aggregation<V, S> & { readonly table?: RowTable }) =>
    tableAfter<S>(follow(parent, aggregateNode(name, options)), context),
  windowedBy: (windows) => windowedAfter<V>(parent, context, windows),
});

const windowedAfter = <V>(
  parent: TopologyNode,
  context: BuildContext,
  windows: Windows,
): KWindowedStream<V> => ({
  ...(windows.kind === 'fixed' ? windowedCounts<V>(parent, windows) : noCounts),
  aggregate: (name, options) => streamAfter(follow(parent, windowNode(name, windows, options)), context),
});
