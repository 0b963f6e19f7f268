import { factText } from '../batch-run.ts';
import {
  type BatchCommit,
  type Checkpoint,
  type CommitOutcome,
  type DerivedEvent,
  type ParkedKey,
  type ProjectionId,
  ProjectionPaused,
  RefusedData,
  type StateChange,
  type StateStore,
  type TaskState,
} from '../ports.ts';
import { type Place, placeText } from '../record.ts';
import type { CounterRow, CounterTable } from '../tables.ts';

type Row = Readonly<Record<string, unknown>>;

interface StoredCheckpoint extends Checkpoint {
  readonly lateRecords: number;
  readonly earlyRecords: number;
}

interface StoredState extends StateChange {
  readonly projection: string;
}

/** Everything a store holds; replaced as a whole by a commit, so that a commit is all or nothing. */
interface Contents {
  readonly tasks: Map<string, TaskState>;
  readonly checkpoints: Map<string, StoredCheckpoint>;
  readonly parked: Map<string, ParkedKey>;
  readonly handled: Map<string, Set<string>>;
  /** Ids of events that are in no window. */
  readonly missed: Set<string>;
  readonly facts: Set<string>;
  readonly counters: Map<string, Map<string, Row>>;
  readonly states: Map<string, StoredState>;
  readonly derived: DerivedEvent[];
}

const idOf = ({ name, version }: ProjectionId): string => `${name} v${version}`;

export interface MemoryStateStoreOptions {
  readonly check?: (table: string, row: Row) => string | undefined;
  /** Part of the commit: what it throws undoes the batch. */
  readonly appendDerived?: (events: readonly DerivedEvent[]) => Promise<void>;
}

/** A state store in memory, for tests: the same contract as the real one, and nothing that survives the process. */
export class MemoryStateStore implements StateStore {
  #contents: Contents = {
    tasks: new Map(),
    checkpoints: new Map(),
    parked: new Map(),
    handled: new Map(),
    missed: new Set(),
    facts: new Set(),
    counters: new Map(),
    states: new Map(),
    derived: [],
  };
  /** Says what is wrong with a row, as a constraint of a database would. */
  readonly #check: (table: string, row: Row) => string | undefined;
  readonly #appendDerived: (events: readonly DerivedEvent[]) => Promise<void>;
  readonly #paused = new Set<string>();
  #lastCommit: Promise<unknown> = Promise.resolve();

  constructor(options: MemoryStateStoreOptions = {}) {
    this.#check = options.check ?? (() => undefined);
    this.#appendDerived = options.appendDerived ?? (async () => {});
  }

  async loadPlaces(projection: ProjectionId, places: readonly Place[]) {
    const { tasks, checkpoints, parked } = this.#contents;
    return places.map((place) => {
      const id = `${idOf(projection)} ${placeText(place)}`;
      return {
        checkpoint: withoutLate(checkpoints.get(id)),
        task: tasks.get(`${idOf(projection)} ${place.partition}`),
        parked: [...parked].filter(([key]) => key.startsWith(`${id} `)).map(([, value]) => value),
      };
    });
  }

  async loadHandled(
    projection: ProjectionId,
    requests: readonly (Place & { readonly bucketStartMs: number })[],
  ) {
    return requests.map((request) => [...(this.#contents.handled.get(bucketId(projection, request)) ?? [])]);
  }

  async loadStates(
    projection: ProjectionId,
    requests: Parameters<StateStore['loadStates']>[1],
  ): Promise<readonly ReadonlyMap<string, unknown>[]> {
    return requests.map(({ state, keys }) => {
      const found = new Map<string, unknown>();
      for (const key of keys) {
        const stored = this.#contents.states.get(`${idOf(projection)} ${state.name} ${key}`);
        if (stored) found.set(key, copyOfJson(stored.value));
      }
      return found;
    });
  }

  async findDue(projection: ProjectionId, request: Parameters<StateStore['findDue']>[1]) {
    return [...this.#contents.states.values()]
      .filter(
        ({ projection: owner, place }) => owner === idOf(projection) && place.partition === request.partition,
      )
      .flatMap(({ state, key, value, dueAtMs }) =>
        dueAtMs !== undefined && dueAtMs <= request.untilMs
          ? [{ state: state.name, key, value: copyOfJson(value), dueAtMs }]
          : [],
      )
      .sort((a, b) => a.dueAtMs - b.dueAtMs)
      .slice(0, request.statesMax);
  }

  /** One after the other, as rows that are locked would have it. */
  commit(batch: BatchCommit): Promise<CommitOutcome> {
    const outcome = this.#lastCommit.then(() => this.#commitNow(batch));
    this.#lastCommit = outcome.catch(() => undefined);
    return outcome;
  }

  async #commitNow(batch: BatchCommit): Promise<CommitOutcome> {
    if (this.#paused.has(batch.projection.name))
      throw new ProjectionPaused(`${batch.projection.name} is paused`);
    const next = copyOf(this.#contents);
    if (!moveTasks(next, batch) || !moveCheckpoints(next, batch) || !changeParked(next, batch))
      return { kind: 'fenced' };
    for (const entry of batch.handled) {
      const id = bucketId(batch.projection, entry);
      next.handled.set(id, new Set([...(next.handled.get(id) ?? []), ...entry.ids]));
    }
    for (const { ids } of batch.missed) for (const id of ids) next.missed.add(id);
    const knownFacts = this.#tellFacts(next, batch);
    for (const { table, rows } of batch.deltas) for (const row of rows) this.#add(next, table, row);
    for (const change of batch.states) this.#changeState(next, batch, change);
    if (batch.derived.length > 0) await this.#appendDerived(batch.derived);
    next.derived.push(...batch.derived);
    this.#contents = next;
    return { kind: 'committed', knownFacts };
  }

  /** As an operator pauses a projection, whatever the processes that run it know of that. */
  setPaused(projection: string, isPaused: boolean): void {
    if (isPaused) this.#paused.add(projection);
    else this.#paused.delete(projection);
  }

  #tellFacts(next: Contents, { projection, facts }: BatchCommit): number {
    let known = 0;
    for (const { fact, adds } of facts) {
      const id = `${idOf(projection)} ${factText(fact)}`;
      if (next.facts.has(id)) known++;
      else {
        next.facts.add(id);
        for (const { table, row } of adds) this.#add(next, table, row);
      }
    }
    return known;
  }

  #add(next: Contents, table: CounterTable, row: CounterRow): void {
    const rows = next.counters.get(table.table) ?? new Map<string, Row>();
    next.counters.set(table.table, rows);
    const id = `${row.windowStartMs ?? ''} ${row.key}`;
    const before = rows.get(id);
    const after: Record<string, unknown> = { [table.keyColumn]: row.key };
    if (table.windowColumn) after[table.windowColumn] = row.windowStartMs;
    for (const [index, column] of table.columns.entries()) {
      after[column] = Number(before?.[column] ?? 0) + (row.amounts[index] ?? 0);
    }
    this.#require(table.table, after);
    rows.set(id, after);
  }

  #changeState(next: Contents, { projection }: BatchCommit, change: StateChange): void {
    const id = `${idOf(projection)} ${change.state.name} ${change.key}`;
    if (change.value === undefined) {
      next.states.delete(id);
      return;
    }
    const value = copyOfJson(change.value);
    if (change.state.table) this.#require(change.state.table.table, value as Row);
    next.states.set(id, { ...change, value, projection: idOf(projection) });
  }

  #require(table: string, row: Row): void {
    const wrong = this.#check(table, row);
    if (wrong !== undefined) throw new RefusedData(wrong);
  }

  /** The rows of a counter table, by key and window. */
  rowsOf(table: string): readonly Row[] {
    return [...(this.#contents.counters.get(table)?.values() ?? [])];
  }

  /** The states of a step, by key. */
  statesOf(state: string): ReadonlyMap<string, unknown> {
    return new Map(
      [...this.#contents.states.values()]
        .filter((stored) => stored.state.name === state)
        .map(({ key, value }) => [key, value]),
    );
  }

  get derived(): readonly DerivedEvent[] {
    return this.#contents.derived;
  }

  /** Events that are handled and in no window. */
  get missed(): ReadonlySet<string> {
    return this.#contents.missed;
  }

  get parked(): readonly ParkedKey[] {
    return [...this.#contents.parked.values()];
  }

  lateRecordsOf(projection: ProjectionId, place: Place): number {
    return this.#contents.checkpoints.get(`${idOf(projection)} ${placeText(place)}`)?.lateRecords ?? 0;
  }

  get earlyRecords(): number {
    return [...this.#contents.checkpoints.values()].reduce((sum, { earlyRecords }) => sum + earlyRecords, 0);
  }

  get lateRecords(): number {
    return [...this.#contents.checkpoints.values()].reduce((sum, { lateRecords }) => sum + lateRecords, 0);
  }
}

const withoutLate = (stored: StoredCheckpoint | undefined): Checkpoint | undefined =>
  stored && { nextOffset: stored.nextOffset, streamTimeMs: stored.streamTimeMs };

const bucketId = (projection: ProjectionId, at: Place & { readonly bucketStartMs: number }): string =>
  `${idOf(projection)} ${placeText(at)} ${at.bucketStartMs}`;

const copyOfJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

const copyOf = (contents: Contents): Contents => ({
  tasks: new Map(contents.tasks),
  checkpoints: new Map(contents.checkpoints),
  parked: new Map(contents.parked),
  handled: new Map(contents.handled),
  missed: new Set(contents.missed),
  facts: new Set(contents.facts),
  counters: new Map([...contents.counters].map(([table, rows]) => [table, new Map(rows)])),
  states: new Map(contents.states),
  derived: [...contents.derived],
});

const moveTasks = (next: Contents, { projection, tasks }: BatchCommit): boolean => {
  for (const { partition, expectedCommits, streamTimeMs } of tasks) {
    const id = `${idOf(projection)} ${partition}`;
    if (next.tasks.get(id)?.commits !== expectedCommits) return false;
    next.tasks.set(id, { commits: (expectedCommits ?? 0) + 1, streamTimeMs });
  }
  return true;
};

const moveCheckpoints = (next: Contents, { projection, moves }: BatchCommit): boolean => {
  for (const move of moves) {
    const id = `${idOf(projection)} ${placeText(move)}`;
    const before = next.checkpoints.get(id);
    if (before?.nextOffset !== move.expectedOffset) return false;
    next.checkpoints.set(id, {
      nextOffset: move.nextOffset,
      streamTimeMs: move.streamTimeMs,
      lateRecords: (before?.lateRecords ?? 0) + move.lateRecords,
      earlyRecords: (before?.earlyRecords ?? 0) + move.earlyRecords,
    });
  }
  return true;
};

const changeParked = (next: Contents, { projection, parked }: BatchCommit): boolean => {
  for (const { topic, partition, key, expectedRecords, parked: after } of parked) {
    const id = `${idOf(projection)} ${placeText({ topic, partition })} ${key}`;
    if (next.parked.get(id)?.records !== expectedRecords) return false;
    if (after) next.parked.set(id, { ...after, key });
    else next.parked.delete(id);
  }
  return true;
};
