import type { OperatorFunction } from 'rxjs';
import type { BatchRun } from './batch-run.ts';
import type { PipedRecords } from './piped-records.ts';
import type { DueTimes } from './ports.ts';
import type { Place, RawRecord } from './record.ts';
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
  /** As the broker has it; missing for what is not, or not any more, one record of a topic. */
  readonly raw?: RawRecord;
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
  /** By the clock, where something is to happen after a while whatever events tell. */
  readonly nowMs: number;
  /** How many events were derived so far, by step and source event: it makes their ids. */
  derivedFrom: Map<string, number>;
  /** What waits for RxJS operators. */
  piped: PipedRecords;
  /** Set where records that a step has held until now are not to be handed on with the one that they have waited for. */
  keepsHeld: boolean;
  /** Whether such records were handed on: one of them may be to blame for what fails. */
  handsOnHeld: boolean;
  /** Set where the record at hand may be refused for what timers before it do: those that are due are left for later. */
  readonly postponesTimers: boolean;
  /** A timer that was due before the record failed, and was postponed: the record is not to blame. */
  readonly onTimerFailure: (error: Error, timer: { readonly state: string; readonly key: string }) => void;
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
  /** How long after its last change what it keeps of a key goes away. */
  readonly expireAfterMs?: number;
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
  /** A global table that the step looks into, for pictures. */
  readonly looksInto?: TopologyNode;
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
  /** The record that it is, where it is one that was held or waited: its id stays. */
  readonly origin?: Origin;
  /** How far the stream was when it came to be, where that is known: what follows judges by it whether it is late. */
  readonly streamTimeMs?: number;
  /** Where it has one of its own; otherwise it follows from the key, the name and the time. */
  readonly id?: string;
  /** Set where nothing is over with it, so that no record that comes now is late. */
  readonly movesNoClock?: true;
}

/** A record that a step has held, and that fails when it is handed on. */
export interface GivenUp {
  readonly left: { readonly value: unknown };
  readonly origin: Origin;
  readonly place: Place;
  readonly raw: RawRecord;
}

/** How far time has come, by each clock. */
export interface Clocks {
  readonly streamTimeMs: number;
  /** −Infinity where only the time of the stream counts. */
  readonly wallClockMs: number;
}

export interface DueHandler {
  /**
   * Given the state and the time that has come; hands on what is final and answers with what is left of the state. Of
   * records that were held only the first: what is left of the state is due again.
   */
  close(options: {
    readonly key: string;
    readonly value: unknown;
    /** By either clock. */
    readonly untilMs: number;
    readonly clocks: Clocks;
    readonly handOn: (result: FinalResult) => void;
    /** For what ends without a result: from then on it is over, though the wall clock may have said so. */
    readonly pass: (timeMs: number) => void;
    /** Takes the key's value of another state away. */
    readonly drop: (state: StateDefinition) => void;
  }): DueValue | undefined;
  /** The state with what was final by then, to be handed on at a later time. */
  postpone(options: {
    readonly value: unknown;
    readonly untilMs: number;
    readonly clocks: Clocks;
    readonly toMs: number;
  }): DueValue;
  /**
   * For steps that hold records: what could not be handed on, to become a dead letter, and the state without it; undefined
   * where its bytes are not known. Such steps go by no clock: what is due can be handed on at any time.
   */
  giveUp?(options: { readonly value: unknown }): GivenUp | undefined;
}

export interface DueValue extends DueTimes {
  readonly value: unknown;
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
  | 'process'
  | 'window'
  | 'suppress'
  | 'table'
  | 'global-table'
  | 'join'
  | 'table-view'
  | 'join-side'
  | 'stream-join'
  | 'foreign-key'
  | 'wait'
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
