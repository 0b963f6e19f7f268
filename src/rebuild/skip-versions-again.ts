import type { SqlRunner } from '../postgres/database.ts';
import type { Build } from './build.ts';

const statement = {
  name: 'skip-versions-again',
  text: `
    insert into projection_state (projection, version, state, key, topic, partition, value)
    select projection, $2, state, key, min(topic), min(partition),
           jsonb_build_object('next', 1, 'held', '[]'::jsonb, 'skipped', jsonb_agg(skipped_version order by skipped_version))
    from projection_skipped_version
    where projection = $1
    group by projection, state, key`,
};

/** What operators have said will never come does not come in a new build either: its keys would stand still where they did. */
export const skipVersionsAgain = async (
  tx: SqlRunner,
  { projection, version }: Pick<Build, 'projection' | 'version'>,
): Promise<void> => {
  await tx.execute(statement, [projection, version]);
};
