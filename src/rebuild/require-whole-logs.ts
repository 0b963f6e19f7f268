import { RecordsGone } from '../kafka/topic-reader.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { placeText } from '../streams/record.ts';
import type { Build } from './build.ts';

const statement = {
  name: 'find-log-break-of-build',
  text: `
    select b.topic, b.partition
    from projection_log_break b join projection_build p on p.projection = b.projection and p.version = $2
    where b.projection = $1 and b.at >= coalesce(p.retired_at, p.started_at)
    order by b.id limit 1`,
};

/**
 * Fails with {@link RecordsGone} where a topic was made anew or has lost its end since the build was begun, or was live: its
 * positions are those of another log, and nobody knows what it would miss.
 */
export const requireWholeLogs = async (
  db: SqlRunner,
  { projection, version }: Pick<Build, 'projection' | 'version'>,
): Promise<void> => {
  const [broken] = await db.execute<{ topic: string; partition: number }>(statement, [projection, version]);
  if (broken)
    throw new RecordsGone(
      `The log of ${placeText(broken)} is another one since then: the topic was made anew or has lost its end`,
    );
};
