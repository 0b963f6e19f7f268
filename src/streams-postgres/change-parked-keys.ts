import type { SqlRunner } from '../postgres/database.ts';
import type { ParkedChange, ProjectionId } from '../streams/ports.ts';

const statement = {
  name: 'change-parked-keys',
  text: `
    with change as materialized (
      select * from unnest($3::text[], $4::integer[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[],
                           $10::text[])
        as c(topic, partition, key, expected_records, since_offset, records, reason, broken_replay)
    ), released as (
      delete from projection_parked_key p using change c
      where p.projection = $1 and p.version = $2 and p.topic = c.topic and p.partition = c.partition and p.key = c.key
        and p.records = c.expected_records and c.records is null
      returning true
    ), changed as (
      update projection_parked_key p
      set since_offset = c.since_offset, records = c.records, reason = c.reason, broken_replay = c.broken_replay
      from change c
      where p.projection = $1 and p.version = $2 and p.topic = c.topic and p.partition = c.partition and p.key = c.key
        and p.records = c.expected_records and c.records is not null
      returning true
    ), parked as (
      insert into projection_parked_key
        (projection, version, topic, partition, key, since_offset, records, reason, broken_replay)
      select $1, $2, topic, partition, key, since_offset, records, reason, broken_replay
      from change where expected_records is null
      order by topic, partition, key
      on conflict do nothing
      returning true
    )
    select (select count(*) from released) + (select count(*) from changed) + (select count(*) from parked) as count`,
};

/** Compare and set, all of them: false when a key is not as it was, because an operator or another process changed it. */
export const changeParkedKeys = async (
  tx: SqlRunner,
  projection: ProjectionId,
  parked: readonly ParkedChange[],
): Promise<boolean> => {
  const changes = parked.filter((change) => change.expectedRecords !== undefined || change.parked);
  if (changes.length === 0) return true;
  const [changed] = await tx.execute<{ count: number }>(statement, [
    projection.name,
    projection.version,
    changes.map((change) => change.topic),
    changes.map((change) => change.partition),
    changes.map((change) => change.key),
    changes.map((change) => change.expectedRecords ?? null),
    changes.map((change) => change.parked?.sinceOffset ?? null),
    changes.map((change) => change.parked?.records ?? null),
    changes.map((change) => change.parked?.reason ?? null),
    changes.map((change) => change.parked?.brokenReplay ?? null),
  ]);
  return changed?.count === changes.length;
};
