import { countsAfter, noCounts, windowedCounts } from './count-steps.ts';
import { type DerivingStep, derive } from './derive.ts';
import { isSameTime, type SourceTime, type StreamOptions, sourceTime } from './event-time.ts';
import type { FailurePolicy } from './failure-policy.ts';
import {
  follow,
  nodesOf,
  type OutsideCall,
  originAlone,
  type RecordOperator,
  type TopologyNode,
} from './graph.ts';
import { requireSameKeys } from './joins/co-partitioning.ts';
import { type JoinKind, type StreamJoinOptions, sideNode, streamJoinNode } from './joins/stream-join.ts';
import { type JoinedTable, tableJoinNode } from './joins/table-join.ts';
import { filteredView, mappedView, type RowView, viewNode } from './joins/table-views.ts';
import type {
  Aggregation,
  KCountableStream,
  KGroupedStream,
  KStream,
  KTable,
  KWindowedAggregation,
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
} from './stateful-steps.ts';
import { type StepOptions, stepName } from './step-name.ts';
import type { RowTable } from './tables.ts';
import type { Emit } from './windowing/emit.ts';
import { suppressNode } from './windowing/suppress.ts';
import { windowNode } from './windowing/window-step.ts';
import type { Windows } from './windows.ts';

export interface TopologySource {
  readonly topic: string;
  readonly node: TopologyNode;
  readonly time: SourceTime;
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
  stream<V>(source: StreamOf<V>, options?: StreamOptions<V>): KStream<V>;
  /** A topic as a table: the latest value of each key; null takes the key's row away. */
  table<V>(source: StreamOf<V>, name: string): KTable<NonNullable<V>, V>;
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
  const open: OpenSource = ({ topic, key }, time = sourceTime(topic)) => {
    const known = sources.find((source) => source.topic === topic);
    if (known && !isSameTime(known.time, time))
      throw new Error(
        `${topic} is read twice with different times: give stream the same options, or use the stream twice`,
      );
    if (known) return known.node;
    const keyedBy = key === undefined ? {} : { keyedBy: key };
    const node: TopologyNode = {
      kind: 'source',
      label: topic,
      ...keyedBy,
      children: [],
      compile: (next) => next,
    };
    sources.push({ topic, node, time });
    return node;
  };
  define({
    stream: <V>(from: StreamOf<V>, time?: StreamOptions<V>) =>
      streamAfter<V>(open(from, sourceTime(from.topic, time)), { ...options, open }),
    table: <V>(from: StreamOf<V>, name: string) =>
      streamAfter<V>(open(from), { ...options, open }).toTable(name),
  });
  const built = { name: options.name, version: options.version, onFailure: options.onFailure, sources };
  requireNamesOnce(built);
  requireDerivingNamesOnce(built);
  requireSameKeys(options.name, sources);
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

type OpenSource = (from: StreamOf<unknown>, time?: SourceTime) => TopologyNode;
type BuildContext = TopologyOptions & { readonly open: OpenSource };

/** What a stateless step is called: by the name that was given, or by its kind alone. */
const calledBy = (
  kind: string,
  work: object,
  options?: StepOptions,
): Pick<TopologyNode, 'label' | 'name'> => {
  const name = stepName(work, options);
  return name === undefined ? { label: kind } : { label: `${kind} ${name}`, name };
};

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
  const joinedBy = (kind: JoinKind) => (other: object, combine: never, options?: StreamJoinOptions) => {
    if (!options) return joined(other as KTable<unknown>, kind === 'left', combine) as never;
    const join = { ...options, kind, combine, topology: context.name };
    const left = follow(parent, sideNode('left', options));
    const node = follow(left, streamJoinNode(join));
    follow(requireStream(other, options.name), sideNode('right', options)).children.push(node);
    return streamAfter(node, context) as never;
  };

  const stream: KStream<V> = {
    filter: (keep: (value: V) => boolean, options?: StepOptions) =>
      then<V>({
        kind: 'filter',
        ...calledBy('filter', keep, options),
        compile: (next) => (key, value, at) => {
          if (keep(value as V)) next(key, value, at);
        },
      }) as never,
    map: (change, options) =>
      then({
        kind: 'map',
        ...calledBy('map', change, options),
        compile: (next) => (key, value, at) => next(key, change(value as V), at),
      }),
    flatMap: (change, options) =>
      then({
        kind: 'flat-map',
        ...calledBy('flat map', change, options),
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
    peek: (look, options) =>
      then({
        kind: 'peek',
        ...calledBy('peek', look, options),
        compile: (next) => (key, value, at) => {
          at.run.looks.push(() => look(value as V));
          next(key, value, at);
        },
      }),
    pipe: (name: string, ...operators: readonly unknown[]) =>
      then(pipeNode({ name, operators: operators as readonly RecordOperator[] })) as never,
    inOrder: (name, { version, ...limits }) =>
      then(inOrderNode(name, { version: version as (value: unknown) => number, ...limits })),
    suppress: (name, every) => then(suppressNode(name, every)),
    groupByKey: () => groupedAfter<V>(parent, context),
    groupBy: (key: (value: V) => string, { through, ...options }: StepOptions & { through?: string } = {}) =>
      (through === undefined
        ? regrouped(parent, key, options)
        : repartitioned(parent, context, key, through)) as never,
    toTable: (name) => tableAfter(follow(parent, tableNode(name)), context, latestOf),
    selectKey: (key, options) => streamAfter<V>(rekeyed(parent, context, key, options), context),
    join: joinedBy('inner') as never,
    leftJoin: joinedBy('left') as never,
    outerJoin: joinedBy('outer') as never,
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

/** Grouping by another key changes nothing about where the records are. */
const requireStream = (other: object, join: string): TopologyNode => {
  const node = nodeOf.get(other);
  if (node) return node;
  throw new Error(
    `The other side of ${join} is not a stream of a topology: what is grouped cannot be joined. Join before grouping; ` +
      'to join by another key, bring the records to it with selectKey(key, { through }) first',
  );
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
    at.piped.add(pipe, next, { key, value, ...originAlone(at.origin) }, at),
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

const regrouped = <V>(
  parent: TopologyNode,
  key: (value: V) => string,
  options: StepOptions,
): KCountableStream<V> =>
  countsAfter<V>(
    follow(parent, {
      kind: 'group',
      ...calledBy('group by', key, options),
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
): KGroupedStream<V> => groupedAfter<V>(rekeyed(parent, context, key, { through }), context);

const rekeyed = <V>(
  parent: TopologyNode,
  context: BuildContext,
  key: (value: V) => string,
  { through, keyedBy }: { readonly through: string; readonly keyedBy?: string },
): TopologyNode => {
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
  return follow(context.open(repartition), {
    kind: 'group',
    label: `by ${through}`,
    ...(keyedBy !== undefined && { keyedBy }),
    compile: (next) => (_key, value, at) => {
      const rekeyed = repartition.read(value);
      if (rekeyed.through === name) next(rekeyed.key, rekeyed.value, at);
    },
  });
};

type KeptTable = JoinedTable;
const keptBy = new WeakMap<object, KeptTable & { readonly changes: TopologyNode }>();

const tableAfter = <S, Change = S>(
  node: TopologyNode,
  context: BuildContext,
  shownOf: (state: unknown) => unknown = (state) => state,
): KTable<S, Change> => {
  const { state } = node;
  if (!state) throw new Error(`${node.label} keeps no state`);
  return viewOf<S, Change>({ node, state, shownOf }, node, context);
};

/** A table whose rows lie in a state, with the step that its changes come from. */
const viewOf = <S, Change>(
  kept: KeptTable,
  changes: TopologyNode,
  context: BuildContext,
): KTable<S, Change> => {
  const view = <R>(label: string, shown: RowView): KTable<R, R | null> => {
    const seen = { ...kept, shownOf: (state: unknown) => shown(kept.shownOf(state)) };
    return viewOf<R, R | null>(seen, follow(changes, viewNode(label, shown)), context);
  };
  const joinedBy =
    (kind: JoinKind) => (other: object, combine: never, options: { readonly name: string }) => {
      const right = keptBy.get(other);
      if (!right) throw new Error(`The other side of ${options.name} is not a table of a topology`);
      const node = follow(changes, tableJoinNode({ ...options, kind, left: kept, right, combine }));
      right.changes.children.push(node);
      return tableAfter(node, context, latestOf) as never;
    };
  const table: KTable<S, Change> = {
    join: joinedBy('inner') as never,
    leftJoin: joinedBy('left') as never,
    outerJoin: joinedBy('outer') as never,
    name: kept.state.name,
    filter: (keep, { name = kept.state.name } = {}) => view<S>(`rows kept of ${name}`, filteredView(keep)),
    mapValues: <R>(change: (row: S) => R, { name = kept.state.name }: { readonly name?: string } = {}) =>
      view<R>(`rows made of ${name}`, mappedView(change)),
    toStream: () => streamAfter<Change>(changes, context),
    suppress: (name, every) => streamAfter<Change>(follow(changes, suppressNode(name, every)), context),
  };
  keptBy.set(table, { ...kept, changes });
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
): KWindowedStream<V> => {
  const emitting = (emit: Emit): KWindowedAggregation<V> => ({
    aggregate: (name, options) =>
      streamAfter(follow(parent, windowNode({ ...options, name, windows, emit })), context),
  });
  return {
    ...(windows.kind === 'fixed' ? windowedCounts<V>(parent, windows) : noCounts),
    ...emitting('final'),
    emit: emitting,
  };
};
