import type { SqlRunner } from '../postgres/database.ts';

interface Place {
  readonly projection: string;
  readonly topic: string;
  readonly partition: number;
}

const loadStatement = {
  name: 'load-checkpoint',
  text: `
    select next_offset as "nextOffset" from projection_checkpoint
    where projection = $1 and topic = $2 and partition = $3`,
};

export const loadCheckpoint = async (db: SqlRunner, place: Place): Promise<number | undefined> => {
  const [row] = await db.execute<{ nextOffset: number }>(loadStatement, [
    place.projection,
    place.topic,
    place.partition,
  ]);
  return row?.nextOffset;
};

const createStatement = {
  name: 'create-checkpoint',
  text: `
    insert into projection_checkpoint (projection, topic, partition, next_offset) values ($1, $2, $3, $4)
    on conflict do nothing
    returning true`,
};

const moveStatement = {
  name: 'move-checkpoint',
  text: `
    update projection_checkpoint set next_offset = $4, moved_at = clock_timestamp()
    where projection = $1 and topic = $2 and partition = $3 and next_offset = $5
    returning true`,
};

/** Compare and set: false when the checkpoint is not where the batch began, so a process that lost its partition changes nothing. */
export const moveCheckpoint = async (
  tx: SqlRunner,
  place: Place,
  move: { expectedOffset: number | undefined; nextOffset: number },
): Promise<boolean> => {
  const where = [place.projection, place.topic, place.partition, move.nextOffset];
  const rows =
    move.expectedOffset === undefined
      ? await tx.execute(createStatement, where)
      : await tx.execute(moveStatement, [...where, move.expectedOffset]);
  return rows.length > 0;
};
