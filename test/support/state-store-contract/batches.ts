import type {
  BatchCommit,
  Fact,
  FactEffect,
  Move,
  ProjectionId,
  StateStore,
  TaskMove,
} from '../../../src/streams/ports.ts';
import type { Place } from '../../../src/streams/record.ts';
import type { CounterTable, RowTable, TableDelta } from '../../../src/streams/tables.ts';

/** Tables that the store must know before the suite begins; where tables are made by hand, with these columns. */
export const contractTables = {
  /** seen bigint, sold bigint */
  counters: { table: 'contract_counter', keyColumn: 'id', columns: ['seen', 'sold'] },
  /** window_start timestamptz, seen bigint */
  windows: { table: 'contract_window', keyColumn: 'id', windowColumn: 'window_start', columns: ['seen'] },
  /** name text, amount bigint, parts jsonb */
  rows: { table: 'contract_row', keyColumn: 'id', columns: ['name', 'amount', 'parts'] },
} as const satisfies Record<string, CounterTable | RowTable>;

const { counters } = contractTables;

let named = 0;
/** A name that no other spec of this run uses. */
export const unique = (name: string): string => `${name}-${process.pid}-${++named}`;

/** A projection that has never been anywhere. */
export const newProjection = (version = 1): ProjectionId => ({ name: unique('projection'), version });

export const at = (partition: number, topic = 'orders'): Place => ({ topic, partition });

export const move = (place: Place, from: number | undefined, to: number, rest: Partial<Move> = {}): Move => ({
  ...place,
  expectedOffset: from,
  nextOffset: to,
  streamTimeMs: Number.NEGATIVE_INFINITY,
  lateRecords: 0,
  earlyRecords: 0,
  ...rest,
});

/** A commit for a task that has had so many. */
export const task = (
  partition: number,
  expectedCommits: number | undefined,
  streamTimeMs: number = Number.NEGATIVE_INFINITY,
): TaskMove => ({ partition, expectedCommits, streamTimeMs });

export const batch = (projection: ProjectionId, rest: Partial<BatchCommit>): BatchCommit => ({
  projection,
  tasks: [],
  moves: [],
  handled: [],
  reopened: [],
  facts: [],
  deltas: [],
  states: [],
  parked: [],
  derived: [],
  missed: [],
  ...rest,
});

export const adding = (key: string, ...amounts: readonly number[]): TableDelta => ({
  table: counters,
  rows: [{ key, amounts }],
});

export const paid = (orderId: string): Fact => ({
  aggregateType: 'Order',
  aggregateId: orderId,
  action: 'SALES_COUNT_INCREASED',
});

/** The fact that an order was paid adds to one row. */
export const paidAdding = (orderId: string, key: string, ...amounts: readonly number[]): FactEffect => ({
  fact: paid(orderId),
  adds: [{ table: counters, row: { key, amounts } }],
});

export const offsetsOf = async (
  store: StateStore,
  projection: ProjectionId,
  places: readonly Place[],
): Promise<readonly (number | undefined)[]> =>
  (await store.loadPlaces(projection, places)).map(({ checkpoint }) => checkpoint?.nextOffset);

export const committed = { kind: 'committed', knownFacts: 0 } as const;
export const fenced = { kind: 'fenced' } as const;
