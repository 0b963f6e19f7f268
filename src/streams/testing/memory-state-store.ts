import { factText } from '../batch-run.ts';
import { dueSince } from '../due-times.ts';
import {
  type BatchCommit,
  type ChangedRows,
  type ChangesRequest,
  type Checkpoint,
  type CommitOutcome,
  type DerivedEvent,
  type Move,
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
  /** The number of the commit that changed it. */
  readonly changedIn: number;
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
  readonly commits: number;
  readonly logBreaks: (Move & { readonly projection: ProjectionId })[];
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
    commits: 0,
    logBreaks: [],
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
        if (stored && stored.value !== undefined) found.set(key, copyOfJson(stored.value));
      }
      return found;
    });
  }

  async loadChanged(
    projection: ProjectionId,
    { state, since, rowsMax }: ChangesRequest,
  ): Promise<ChangedRows> {
    const { states, commits } = this.#contents;
    const rows = [...states.values()]
      .filter((stored) => stored.projection === idOf(projection) && stored.state.name === state.name)
      .filter(({ changedIn, value }) =>
        since === undefined ? value !== undefined : changedIn > Number(since),
      )
      .slice(0, rowsMax)
      .map(({ key, value }) => ({ key, value: value === undefined ? undefined : copyOfJson(value) }));
    return { rows, upTo: String(commits) };
  }

  async findDue(projection: ProjectionId, request: Parameters<StateStore['findDue']>[1]) {
    return [...this.#contents.states.values()]
      .filter(
        ({ projection: owner, place, state }) =>
          owner === idOf(projection) &&
          place.partition === request.partition &&
          request.states.includes(state.name) !== (request.others ?? false),
      )
      .flatMap(({ state, key, value, ...times }) => {
        const dueAtMs = dueSince(times, request);
        return dueAtMs === undefined ? [] : [{ state: state.name, key, value: copyOfJson(value), dueAtMs }];
      })
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
    for (const entry of batch.reopened) {
      const id = bucketId(batch.projection, entry);
      const before = [...(next.handled.get(id) ?? [])];
      next.handled.set(id, new Set(before.filter((known) => !entry.ids.includes(known))));
    }
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
    // Whoever has a copy has to be told that it is gone.
    if (change.value === undefined && change.state.rowsMax === undefined) {
      next.states.delete(id);
      return;
    }
    const value = change.value === undefined ? undefined : copyOfJson(change.value);
    if (change.state.table) this.#require(change.state.table.table, value as Row);
    next.states.set(id, { ...change, value, projection: idOf(projection), changedIn: next.commits });
  }

  #require(table: string, row: Row): void {
    const wrong = this.#check(table, row);
    if (wrong !== undefined) throw new RefusedData(wrong);
  }

  /** As an operator changes a state: whoever runs the projection is fenced, and finds it then. */
  changeState(
    projection: ProjectionId,
    { state, key }: { readonly state: string; readonly key: string },
    change: (value: unknown) => Pick<StateChange, 'value' | 'dueAtMs'> | undefined,
    { fences }: { readonly fences: boolean } = { fences: true },
  ): void {
    const id = `${idOf(projection)} ${state} ${key}`;
    const stored = this.#contents.states.get(id);
    const changed = stored && change(stored.value);
    if (!stored || !changed) return;
    const next = copyOf(this.#contents);
    const task = `${idOf(projection)} ${stored.place.partition}`;
    const { commits = 0, streamTimeMs = Number.NEGATIVE_INFINITY } = next.tasks.get(task) ?? {};
    if (fences) next.tasks.set(task, { commits: commits + 1, streamTimeMs });
    const { dueAtMs: _, ...rest } = stored;
    next.states.set(id, { ...rest, ...changed });
    this.#contents = next;
  }

  /** The rows of a counter table, by key and window. */
  rowsOf(table: string): readonly Row[] {
    return [...(this.#contents.counters.get(table)?.values() ?? [])];
  }

  /** The states of a step, by key. */
  statesOf(state: string): ReadonlyMap<string, unknown> {
    return new Map(
      [...this.#contents.states.values()]
        .filter((stored) => stored.state.name === state && stored.value !== undefined)
        .map(({ key, value }) => [key, value]),
    );
  }

  get derived(): readonly DerivedEvent[] {
    return this.#contents.derived;
  }

  /** Moves of checkpoints to where places begin anew. */
  get logBreaks(): Contents['logBreaks'] {
    return this.#contents.logBreaks;
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

/** What a database takes for a text, and for one in an index. */
const requireText = (key: string, reason: string): void => {
  if (key.includes('\0') || reason.includes('\0')) throw new RefusedData('A text has a zero byte');
  if (Buffer.byteLength(key) > 2000) throw new RefusedData('The key does not fit into an index');
};

const withoutLate = (stored: StoredCheckpoint | undefined): Checkpoint | undefined =>
  stored && {
    nextOffset: stored.nextOffset,
    streamTimeMs: stored.streamTimeMs,
    ...(stored.log && { log: stored.log }),
  };

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
  commits: contents.commits + 1,
  logBreaks: [...contents.logBreaks],
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
    if (move.logBreak) next.logBreaks.push({ ...move, projection });
    next.checkpoints.set(id, {
      nextOffset: move.nextOffset,
      streamTimeMs: move.streamTimeMs,
      ...(move.log && { log: move.log }),
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
    if (after) requireText(key, after.reason);
    if (after) next.parked.set(id, { ...after, key });
    else next.parked.delete(id);
  }
  return true;
};
