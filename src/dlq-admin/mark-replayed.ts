import type { SqlRunner } from '../postgres/database.ts';
import type { DeadLetter } from './dead-letter.ts';

const statement = {
  name: 'mark-dead-letters-replayed',
  text: `
    update dead_letter_decision d set done_at = clock_timestamp()
    from unnest($1::text[], $2::integer[], $3::bigint[]) as l (topic, partition, "offset")
    where d.dlq_topic = l.topic and d.dlq_partition = l.partition and d.dlq_offset = l.offset and d.replay_id = $4`,
};

/** Kafka has them. */
export const markReplayed = async (
  db: SqlRunner,
  letters: readonly DeadLetter[],
  replayId: string,
): Promise<void> => {
  await db.execute(statement, [
    letters.map(({ place }) => place.topic),
    letters.map(({ place }) => place.partition),
    letters.map(({ place }) => place.offset),
    replayId,
  ]);
};
