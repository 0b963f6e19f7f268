import type { OperatorFunction } from 'rxjs';
import type { BatchRun } from './batch-run.ts';
import type { PipedRecords } from './piped-records.ts';
import type { Place } from './record.ts';
import type { CounterTable, StateDefinition } from './tables.ts';
import type { Emit } from './windowing/emit.ts';
import type { Windows } from './windows.ts';

/** The event whose consequences are being worked out. */
export interface Origin {
  readonly id: string;
  readonly timeMs: number;
  /** Set where the time lies too far in the future to be believed: it is in no window, and moves no clock. */
  readonly isEarly?: true;
  /** The time that the event itself tells, under which it counts as handled; where it is another one. */
  readonly recordedMs?: number;
}

/** Without the record that it may be part of. */
export const originAlone = ({ id, timeMs, isEarly, recordedMs }: Origin): Origin => ({
  id,
  timeMs,
  ...(isEarly && { isEarly }),
  ...(recordedMs !== undefined && { recordedMs }),
});

/** Where a step stands: the batch it adds to, and the record that led here. One per batch, moved from record to record. */
export interface StepContext {
  run: BatchRun;
  place: Place;
  origin: Origin;
  /** The latest event time of the place up to this record. */
  placeTimeMs: number;
  /** What the places of one partition number share: the latest event time of all of them up to this record. */
  readonly task: { streamTimeMs: number };
  /** How many events were derived so far, by step and source event: it makes their ids. */
  derivedFrom: Map<string, number>;
  /** What waits for RxJS operators. */
  piped: PipedRecords;
}

export type Step = (key: string | null, value: unknown, at: StepContext) => void;

/** A record as RxJS operators between two steps see it. */
export interface StreamRecord<V> extends Origin {
  readonly key: string | null;
  readonly value: V;
}

export type RecordOperator = OperatorFunction<StreamRecord<unknown>, StreamRecord<unknown>>;

/** One step of a topology, as data: what it is, what it keeps, what follows, and how it becomes a function. */
export interface TopologyNode {
  readonly kind: NodeKind;
  /** For descriptions and pictures. */
  readonly label: string;
  /** The name that was given to a stateless step; never that of a function. */
  readonly name?: string;
  readonly children: TopologyNode[];
  readonly state?: StateDefinition;
  readonly counts?: {
    readonly table: CounterTable;
    readonly column?: string;
    readonly action?: string;
    /** Whether it counts business facts, and not events. */
    readonly isFact?: boolean;
  };
  readonly windows?: Windows;
  /** When a window is handed on. */
  readonly emit?: Emit;
  /** A topic that the step writes to. */
  readonly destination?: string;
  /** Set on steps that derive events: their name, as it is part of the events' ids. */
  readonly derives?: string;
  /** What the keys of its records are, where it brings them in and that is known. */
  readonly keyedBy?: string;
  /** Set on steps where two sides meet by key: the steps whose states it looks into, besides what comes in. */
  readonly meets?: readonly TopologyNode[];
  /** Called with what follows; the result is called once per record. */
  compile(next: Step): Step;
  /** For steps that have something to do when a state of theirs is due. */
  readonly onDue?: DueHandler;
}

/** Done for a batch before its checkpoint moves, and again after a crash: must be harmless to repeat. */
export interface OutsideCall {
  readonly name: string;
  perform(values: readonly unknown[]): Promise<void>;
}

/** What a due state hands on, with the time that it is of and a name that nothing else of its key has. */
export interface FinalResult {
  readonly name: string;
  readonly timeMs: number;
  readonly value: unknown;
  /** The record that it is, where it is one that waited: its id stays. */
  readonly origin?: Origin;
  /** How far the stream was when it came to be, where that is known: what follows judges by it whether it is late. */
  readonly streamTimeMs?: number;
}

export interface DueHandler {
  /** Given the state and the time that has come; hands on what is final and answers with what is left of the state. */
  close(options: {
    readonly key: string;
    readonly value: unknown;
    readonly untilMs: number;
    readonly handOn: (result: FinalResult) => void;
    /** For what ends without a result: from then on it is over, though the wall clock may have said so. */
    readonly pass: (timeMs: number) => void;
  }): { readonly value: unknown; readonly dueAtMs?: number } | undefined;
  /** The state with what was final by then, to be handed on at a later time. */
  postpone(options: { readonly value: unknown; readonly untilMs: number; readonly toMs: number }): {
    readonly value: unknown;
    readonly dueAtMs: number;
  };
}

export type NodeKind =
  | 'source'
  | 'filter'
  | 'map'
  | 'flat-map'
  | 'branch'
  | 'merge'
  | 'peek'
  | 'pipe'
  | 'in-order'
  | 'group'
  | 'repartition'
  | 'count'
  | 'row'
  | 'aggregate'
  | 'window'
  | 'suppress'
  | 'table'
  | 'join'
  | 'table-view'
  | 'join-side'
  | 'stream-join'
  | 'to'
  | 'call';

export const nothing: Step = () => {};

/** Depth first: every step becomes one function that calls those after it, so that a record runs through plain calls. */
export const compileNode = (node: TopologyNode, compiled: Map<TopologyNode, Step> = new Map()): Step => {
  const known = compiled.get(node);
  if (known) return known;
  const step = node.compile(nextOf(node, compiled));
  compiled.set(node, step);
  return step;
};

/** What follows a node. */
export const nextOf = (node: TopologyNode, compiled: Map<TopologyNode, Step> = new Map()): Step => {
  const [first = nothing, ...others] = node.children.map((child) => compileNode(child, compiled));
  if (others.length === 0) return first;
  return (key, value, at) => {
    first(key, value, at);
    for (const other of others) other(key, value, at);
  };
};

/** Every node that can be reached, each once, in the order of the flow. */
export const nodesOf = (roots: readonly TopologyNode[]): readonly TopologyNode[] => {
  const seen = new Set<TopologyNode>();
  const visit = (node: TopologyNode): void => {
    if (seen.has(node)) return;
    seen.add(node);
    for (const child of node.children) visit(child);
  };
  for (const root of roots) visit(root);
  return [...seen];
};

/** Appends a step behind another one. */
export const follow = (parent: TopologyNode, node: Omit<TopologyNode, 'children'>): TopologyNode => {
  const child: TopologyNode = { ...node, children: [] };
  parent.children.push(child);
  return child;
};
