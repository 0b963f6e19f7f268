import type { SqlRunner } from '../postgres/database.ts';

/** What a number stands for, in the order of the columns. */
export type Named = readonly (string | number)[];

export interface SmallNumbers {
  /** In the order of the names; new names get their numbers. */
  numbersOf(names: readonly Named[]): Promise<readonly number[]>;
}

export interface NumberedTable {
  readonly table: string;
  readonly columns: readonly { readonly name: string; readonly type: 'text' | 'integer' }[];
}

/**
 * Numbers that stand for names in rows that are many. A number is given once and stays, so each is asked for once; it is
 * given outside of the batch's transaction, or one that is undone would leave numbers in memory that nobody has.
 */
export const createSmallNumbers = (db: SqlRunner, numbered: NumberedTable): SmallNumbers => {
  const known = new Map<string, number>();
  const statements = statementsFor(numbered);

  const learn = async (names: readonly Named[]): Promise<void> => {
    const values = numbered.columns.map((_, column) => names.map((name) => name[column]));
    await db.execute(statements.give, values);
    const rows = await db.execute<{ position: number; id: number }>(statements.find, values);
    for (const { position, id } of rows) known.set(textOf(names[position - 1] ?? []), id);
  };

  return {
    numbersOf: async (names) => {
      const texts = names.map(textOf);
      const unknown = names.filter((_, index) => !known.has(texts[index] ?? ''));
      if (unknown.length > 0) await learn(unknown);
      return texts.map((text) => {
        const id = known.get(text);
        if (id === undefined) throw new Error(`${numbered.table} has no row for ${text}`);
        return id;
      });
    },
  };
};

const textOf = (name: Named): string => name.join('\0');

const statementsFor = ({ table, columns }: NumberedTable) => {
  const names = columns.map(({ name }) => name).join(', ');
  const given = `unnest(${columns.map(({ type }, index) => `$${index + 1}::${type}[]`).join(', ')})`;
  const same = columns.map(({ name }) => `numbered.${name} = given.${name}`).join(' and ');
  return {
    give: {
      name: `give-${table}`,
      text: `
        insert into ${table} (${names})
        select distinct ${names} from ${given} as given(${names})
        where not exists (select from ${table} numbered where ${same})
        order by ${names}
        on conflict do nothing`,
    },
    find: {
      name: `find-${table}`,
      text: `
        select given.position, numbered.id
        from ${given} with ordinality as given(${names}, position) join ${table} numbered on ${same}`,
    },
  };
};
