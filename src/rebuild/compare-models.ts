import type { SqlRunner } from '../postgres/database.ts';
import { identifier } from '../streams-postgres/identifier.ts';
import { statementName } from '../streams-postgres/statement-name.ts';
import type { ModelTable } from './model-tables.ts';

type Values = Readonly<Record<string, unknown>>;

/** A row that is not the same in both; null where it is missing. */
export interface Difference {
  readonly table: string;
  readonly key: string;
  readonly live: Values | null;
  readonly rebuilt: Values | null;
}

export interface Comparison {
  readonly rows: number;
  readonly differences: number;
  readonly shown: readonly Difference[];
}

export const differencesShownMax = 100;

interface Counts {
  readonly rows: number;
  readonly differences: number;
}

/**
 * Row by row over all tables, in one snapshot. Windows that have expired are left out: the live model has lost them, and the
 * rebuilt one loses them once it is live. So are rows that go away by themselves, from then on: each model looks at the clock
 * when it comes to it.
 */
export const compareModels = async (
  tx: SqlRunner,
  tables: readonly ModelTable[],
  { schema, windowRetentionMs }: { readonly schema: string; readonly windowRetentionMs: number },
): Promise<Comparison> => {
  const keptMs = windowRetentionMs - marginMs;
  let total: Comparison = { rows: 0, differences: 0, shown: [] };
  for (const table of tables) {
    const { count, list } = statementsFor(table, schema);
    const [counts] = await tx.execute<Counts>(count, [keptMs]);
    const shown =
      counts && counts.differences > 0
        ? await tx.execute<Difference>(list, [keptMs, differencesShownMax - total.shown.length])
        : [];
    total = {
      rows: total.rows + (counts?.rows ?? 0),
      differences: total.differences + (counts?.differences ?? 0),
      shown: [...total.shown, ...shown.map((difference) => ({ ...difference, table: table.table }))],
    };
  }
  return total;
};

/** What expires while it is compared may be missing already. */
const marginMs = 5 * 60_000;

const statementsFor = ({ table, keys, columns, windowColumn, expiryColumn }: ModelTable, schema: string) => {
  const name = identifier(table);
  const joined = keys.map((key) => `live.${identifier(key)} = rebuilt.${key}`).join(' and ');
  const both = `public.${name} live full join ${identifier(schema)}.${name} rebuilt on ${joined}`;
  const values = (from: string): string =>
    columns.map((column) => `${from}.${identifier(column)}`).join(', ');
  const isMissing = (from: string): string => `${from}.${keys[0]} is null`;
  const differs = `${isMissing('live')} or ${isMissing('rebuilt')} or (${values('live')}) is distinct from (${values('rebuilt')})`;
  const shown = (from: string): string =>
    `case when ${isMissing(from)} then null
          else json_build_object(${columns.map((column) => `'${column}', ${from}.${column}`).join(', ')}) end`;
  const key = keys.map((column) => `coalesce(live.${column}, rebuilt.${column})::text`);
  const ofBoth = (column: string): string => `coalesce(live.${column}, rebuilt.${column})`;
  const isKept = [
    windowColumn
      ? `${ofBoth(windowColumn)} >= now() - $1::float8 * interval '1 millisecond'`
      : '$1::float8 is not null',
    ...(expiryColumn ? [`${ofBoth(identifier(expiryColumn))} > now()`] : []),
  ].join(' and ');
  const named = (kind: string, text: string) => ({ name: statementName(`${kind}-${table}`, text), text });
  return {
    count: named(
      'count-differences',
      `select count(*) as rows, count(*) filter (where ${differs}) as differences from ${both}
       where ${isKept}`,
    ),
    list: named(
      'list-differences',
      `select ${key.join(` || ' ' || `)} as key, ${shown('live')} as live, ${shown('rebuilt')} as rebuilt
       from ${both} where ${isKept} and (${differs}) order by 1 limit $2`,
    ),
  };
};
