import type { SqlRunner } from '../postgres/database.ts';
import type { ProjectionId } from '../streams/ports.ts';

/** What an event of a type does in a projection, by the name under which it is shown as handled. */
export interface EventAction {
  readonly eventType: string;
  readonly action: string;
}

const statement = {
  name: 'store-projection-actions',
  text: `
    with named as materialized (
      select * from unnest($3::text[], $4::text[]) as n(event_type, action)
    ), gone as (
      delete from projection_action a
      where a.projection = $1 and a.version = $2
        and not exists (select from named n where n.event_type = a.event_type and n.action = a.action)
    )
    insert into projection_action (projection, version, event_type, action)
    select $1, $2, event_type, action from named order by event_type, action
    on conflict do nothing`,
};

/** Puts the names of this definition in place of those that were there. */
export const storeProjectionActions = async (
  db: SqlRunner,
  { name, version }: ProjectionId,
  actions: readonly EventAction[],
): Promise<void> => {
  await db.execute(statement, [
    name,
    version,
    actions.map(({ eventType }) => eventType),
    actions.map(({ action }) => action),
  ]);
};
