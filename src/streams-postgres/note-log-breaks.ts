import type { SqlRunner } from '../postgres/database.ts';
import type { Move, ProjectionId } from '../streams/ports.ts';

const statement = {
  name: 'note-log-breaks',
  text: `
    insert into projection_log_break
      (projection, version, topic, partition, kind, offset_before, next_offset, stream_time)
    select $1, $2, topic, partition, kind, offset_before, next_offset, to_timestamp(stream_time_ms / 1000)
    from unnest($3::text[], $4::integer[], $5::text[], $6::bigint[], $7::bigint[], $8::float8[])
      as b(topic, partition, kind, offset_before, next_offset, stream_time_ms)`,
};

/** Keeps for operators which places begin anew: Kafka has lost events there. */
export const noteLogBreaks = async (
  tx: SqlRunner,
  { name, version }: ProjectionId,
  moves: readonly Move[],
): Promise<void> => {
  const broken = moves.filter(({ logBreak }) => logBreak);
  if (broken.length === 0) return;
  await tx.execute(statement, [
    name,
    version,
    broken.map(({ topic }) => topic),
    broken.map(({ partition }) => partition),
    broken.map(({ logBreak }) => logBreak),
    broken.map(({ expectedOffset }) => expectedOffset ?? 0),
    broken.map(({ nextOffset }) => nextOffset),
    broken.map(({ streamTimeMs }) => streamTimeMs),
  ]);
};
