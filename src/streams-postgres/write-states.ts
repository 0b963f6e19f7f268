import type { SqlRunner } from '../postgres/database.ts';
import { type ProjectionId, RefusedData, type StateChange } from '../streams/ports.ts';
import type { RowTable, StateDefinition } from '../streams/tables.ts';
import { toExactJson } from './exact-json.ts';
import type { RowStatementsOf } from './row-table.ts';

const writeStatement = {
  name: 'write-states-by-clock',
  text: `
    insert into projection_state (projection, version, state, key, topic, partition, value,
                                  due_at, stream_due_at, clock_due_at, changed_in)
    select $1, $2, state, key, topic, partition, coalesce(value, 'null'), to_timestamp("dueAtMs" / 1000),
           to_timestamp("streamDueAtMs" / 1000), to_timestamp("clockDueAtMs" / 1000),
           case when "isCopied" then pg_current_xact_id() end
    from jsonb_to_recordset($3::jsonb)
      as given(state text, key text, topic text, partition integer, value jsonb,
               "dueAtMs" float8, "streamDueAtMs" float8, "clockDueAtMs" float8, "isCopied" boolean)
    on conflict (projection, version, state, key) do update
      set topic = excluded.topic, partition = excluded.partition, value = excluded.value, due_at = excluded.due_at,
          stream_due_at = excluded.stream_due_at, clock_due_at = excluded.clock_due_at,
          changed_at = excluded.changed_at, changed_in = excluded.changed_in`,
};

const removeStatement = {
  name: 'remove-states',
  text: `
    delete from projection_state s using unnest($3::text[], $4::text[]) as given(state, key)
    where s.projection = $1 and s.version = $2 and s.state = given.state and s.key = given.key`,
};

/** What processes have copies of stays without a value for a while, so that they are told. */
const emptyStatement = {
  name: 'empty-states',
  text: `
    update projection_state s set value = null, due_at = null, changed_at = now(), changed_in = pg_current_xact_id()
    from unnest($3::text[], $4::text[]) as given(state, key)
    where s.projection = $1 and s.version = $2 and s.state = given.state and s.key = given.key`,
};

/** At most one statement to write and one to take away per table. Sorted, so that two batches cannot deadlock. */
export const writeStates = async (
  tx: SqlRunner,
  rowStatementsOf: RowStatementsOf,
  projection: ProjectionId,
  changes: readonly StateChange[],
): Promise<void> => {
  const { shared, byTable } = lastOfEach(changes);
  if (shared.length > 0) await writeShared(tx, projection, shared);
  for (const { table, rows } of byTable) await writeRows(tx, rowStatementsOf, table, rows);
};

const writeShared = async (
  tx: SqlRunner,
  { name, version }: ProjectionId,
  changes: readonly StateChange[],
): Promise<void> => {
  const [kept, gone] = apart(changes);
  if (kept.length > 0) {
    const rows = kept.map(({ state, key, place, value, dueAtMs, streamDueAtMs, clockDueAtMs }) => ({
      state: state.name,
      key,
      topic: place.topic,
      partition: place.partition,
      value,
      // Most states are never due and nobody has a copy: what is missing is null.
      ...(dueAtMs !== undefined && { dueAtMs }),
      ...(streamDueAtMs !== undefined && { streamDueAtMs }),
      ...(clockDueAtMs !== undefined && { clockDueAtMs }),
      ...(isCopied(state) && { isCopied: true }),
    }));
    await tx.execute(writeStatement, [name, version, jsonOf(rows)]);
  }
  for (const [statement, own] of [
    [removeStatement, gone.filter(({ state }) => !isCopied(state))],
    [emptyStatement, gone.filter(({ state }) => isCopied(state))],
  ] as const) {
    if (own.length === 0) continue;
    const [states, keys] = [own.map(({ state }) => state.name), own.map(({ key }) => key)];
    await tx.execute(statement, [name, version, states, keys]);
  }
};

const isCopied = ({ rowsMax }: StateDefinition): boolean => rowsMax !== undefined;

const writeRows = async (
  tx: SqlRunner,
  rowStatementsOf: RowStatementsOf,
  table: RowTable,
  changes: readonly StateChange[],
): Promise<void> => {
  const { write, remove } = await rowStatementsOf(tx, table);
  const [kept, gone] = apart(changes);
  if (kept.length > 0) await tx.execute(write, [jsonOf(kept.map((change) => rowOf(table, change)))]);
  if (gone.length > 0) await tx.execute(remove, [gone.map(({ key }) => key)]);
};

const rowOf = (table: RowTable, change: StateChange): Readonly<Record<string, unknown>> => {
  const { key, value } = change;
  if ((change.dueAtMs ?? change.streamDueAtMs ?? change.clockDueAtMs) !== undefined)
    throw new Error(`Rows of ${table.table} cannot be due at a time`);
  if (typeof value !== 'object' || value === null) {
    throw new RefusedData(`The state of ${key} is no row of ${table.table}: it has no fields`);
  }
  const fields = value as Readonly<Record<string, unknown>>;
  return Object.fromEntries([
    ...table.columns.map((column) => [column, fields[column] ?? null]),
    [table.keyColumn, key],
  ]);
};

const jsonOf = (rows: readonly unknown[]): string => {
  try {
    return toExactJson(rows);
  } catch (cause) {
    throw new RefusedData((cause as Error).message, { cause });
  }
};

const apart = (changes: readonly StateChange[]): [StateChange[], StateChange[]] => [
  changes.filter(({ value }) => value !== undefined),
  changes.filter(({ value }) => value === undefined),
];

const lastOfEach = (changes: readonly StateChange[]) => {
  const last = new Map<string, StateChange>();
  for (const change of changes) last.set(JSON.stringify([change.state.name, change.key]), change);
  const sorted = [...last].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, change]) => change);
  const byTable = new Map<string, { table: RowTable; rows: StateChange[] }>();
  for (const change of sorted) {
    const { table } = change.state;
    if (!table) continue;
    const grouped = byTable.get(table.table) ?? { table, rows: [] };
    byTable.set(table.table, grouped);
    grouped.rows.push(change);
  }
  return { shared: sorted.filter(({ state }) => !state.table), byTable: byTable.values() };
};
