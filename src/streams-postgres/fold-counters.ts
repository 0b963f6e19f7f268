import { type FactEffect, RefusedData } from '../streams/ports.ts';
import type { CounterRow, CounterTable, TableDelta } from '../streams/tables.ts';

interface FoldedRow extends CounterRow {
  readonly amounts: number[];
}

/**
 * One delta per table, one row per key and window, sorted: batches that touch the same rows come to them in the same order
 * and cannot deadlock.
 */
export const foldCounters = (
  deltas: readonly TableDelta[],
  facts: readonly FactEffect[],
): readonly TableDelta[] => {
  const tables = new Map<string, { table: CounterTable; rows: Map<string, FoldedRow> }>();
  const texts = new Map<CounterTable, string>();
  const rowsOf = (table: CounterTable): Map<string, FoldedRow> => {
    const text = texts.get(table) ?? tableText(table);
    texts.set(table, text);
    const folded = tables.get(text) ?? { table, rows: new Map() };
    tables.set(text, folded);
    return folded.rows;
  };
  for (const { table, rows } of deltas) {
    const folded = rowsOf(table);
    for (const row of rows) addRow(folded, row);
  }
  for (const { adds } of facts) {
    for (const { table, row } of adds) addRow(rowsOf(table), row);
  }
  return [...tables].sort(byText).map(([, { table, rows }]) => ({
    table,
    rows: [...rows].sort(byText).map(([, row]) => checked(table, row)),
  }));
};

const byText = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1);

const tableText = ({ table, keyColumn, windowColumn = '', columns }: CounterTable): string =>
  [table, keyColumn, windowColumn, ...columns].join();

const addRow = (rows: Map<string, FoldedRow>, row: CounterRow): void => {
  const text = row.windowStartMs === undefined ? row.key : `${row.windowStartMs} ${row.key}`;
  const folded = rows.get(text);
  if (!folded) {
    rows.set(text, { ...row, amounts: [...row.amounts] });
    return;
  }
  for (const [column, amount] of row.amounts.entries()) {
    folded.amounts[column] = (folded.amounts[column] ?? 0) + amount;
  }
};

/** Beyond 2^53 numbers are rounded, and nobody would notice. */
const checked = (table: CounterTable, row: FoldedRow): FoldedRow => {
  const wrong = row.amounts.find((amount) => !Number.isSafeInteger(amount));
  if (wrong === undefined) return row;
  throw new RefusedData(
    `${wrong} cannot be added to ${table.table} at ${row.key}: it is not a whole number that can be told exactly`,
  );
};
