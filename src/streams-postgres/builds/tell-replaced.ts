import type { SqlRunner } from '../../postgres/database.ts';

const statement = {
  name: 'tell-replaced',
  text: `insert into model_change (model, keys, is_replaced) select model, '{}', true from unnest($1::text[]) as model`,
};

/** Writes down that other tables stand under these names, in the transaction that puts them there. */
export const tellReplaced = async (tx: SqlRunner, tables: readonly string[]): Promise<void> => {
  await tx.execute(statement, [tables]);
};
