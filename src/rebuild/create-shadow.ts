import type { SqlRunner } from '../postgres/database.ts';
import { identifier } from '../streams-postgres/identifier.ts';
import { executeAll } from './execute-ddl.ts';

/** Empty tables with the shape, the constraints, the indexes and the privileges of the live ones. */
export const createShadow = async (
  tx: SqlRunner,
  schema: string,
  tables: readonly string[],
): Promise<void> => {
  await executeAll(tx, [`create schema ${identifier(schema)}`]);
  for (const table of tables) {
    const live = `public.${identifier(table)}`;
    const shadow = `${schema}.${table}`;
    await executeAll(tx, [`create table ${shadow} (like ${live} including all excluding indexes)`]);
    const rows = await tx.execute<{ statement: string }>(likenessStatement, [live, shadow]);
    await executeAll(
      tx,
      rows.map(({ statement }) => statement),
    );
  }
};

// What `like` does not copy, or under names of its own: after a swap nobody should find anything called differently.
const likenessStatement = {
  name: 'describe-likeness',
  text: `
    select statement from (
      select 1 as position, format('alter table %s add constraint %I %s', $2::text, conname, pg_get_constraintdef(oid)) as statement
      from pg_constraint where conrelid = to_regclass($1::text) and contype in ('p', 'u', 'x')
      union all
      select 2, replace(pg_get_indexdef(indexrelid), format(' ON %s ', $1::text), format(' ON %s ', $2::text))
      from pg_index
      where indrelid = to_regclass($1::text)
        and not exists (select from pg_constraint where conindid = indexrelid and contype in ('p', 'u', 'x'))
      union all
      select 3, format('alter table %s set (%s)', $2::text, array_to_string(reloptions, ', '))
      from pg_class where oid = to_regclass($1::text) and reloptions is not null
      union all
      select 4, format('comment on table %s is %L', $2::text, obj_description(to_regclass($1::text), 'pg_class'))
      where obj_description(to_regclass($1::text), 'pg_class') is not null
      union all
      select 5, format('grant %s on %s to %s', privilege_type, $2::text,
                       case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end)
      from pg_class, aclexplode(relacl) where oid = to_regclass($1::text) and grantee <> relowner
    ) likeness
    order by position, statement`,
};
