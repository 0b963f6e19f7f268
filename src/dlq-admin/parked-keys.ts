import type { SqlRunner } from '../postgres/database.ts';
import { parkedName } from '../streams/parked-name.ts';
import { type DeadLetter, isReplayable, type OriginalPlace, type ReplayableLetter } from './dead-letter.ts';
import { storable } from './decision.ts';

/** Letters that belong in one order: one key in one partition, for one projection. */
export const sequenceOf = ({
  projection,
  original,
  key,
}: Pick<ReplayableLetter, 'projection' | 'key'> & {
  readonly original: Pick<OriginalPlace, 'topic' | 'partition'>;
}): string =>
  JSON.stringify([projection, original.topic, original.partition, key === null ? null : parkedName(key)]);

const findStatement = {
  name: 'find-parked-keys-of-letters',
  text: `
    select distinct l.position
    from unnest($1::text[], $2::text[], $3::integer[], $4::text[]) with ordinality
           as l (projection, topic, partition, key, position)
    join projection_parked_key p
      on p.projection = l.projection and p.topic = l.topic and p.partition = l.partition and p.key = l.key`,
};

const placeValues = (letters: readonly ReplayableLetter[]): readonly unknown[] => [
  letters.map(({ projection }) => storable(projection)),
  letters.map(({ original }) => original.topic),
  letters.map(({ original }) => original.partition),
  letters.map(({ key }) => (key === null ? null : parkedName(key))),
];

/** Those of the letters whose key is parked: whatever was decided about the others, these have to stay in their order. */
export const findLettersOfParkedKeys = async (
  db: SqlRunner,
  letters: readonly DeadLetter[],
): Promise<ReadonlySet<DeadLetter>> => {
  const asked = letters.filter(isReplayable);
  if (asked.length === 0) return new Set();
  const rows = await db.execute<{ position: number }>(findStatement, placeValues(asked));
  return new Set([
    ...asked.filter(({ kind }) => kind === 'parked'),
    ...rows.flatMap(({ position }) => asked[position - 1] ?? []),
  ]);
};

// In one order always, so that two that do the same do not wait for each other.
const lockStatement = {
  name: 'lock-parked-keys-of-letters',
  text: `
    select p.records
    from projection_parked_key p
    where (p.projection, p.topic, p.partition, p.key, p.version) in (
      select * from unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::integer[]))
    order by p.projection, p.version, p.topic, p.partition, p.key
    for update`,
};

const takeOffStatement = {
  name: 'take-letters-off-parked-keys',
  text: `
    update projection_parked_key p set records = p.records - l.letters
    from (select projection, topic, partition, key, version, count(*)::integer as letters
          from unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::integer[])
                 as l (projection, topic, partition, key, version)
          group by 1, 2, 3, 4, 5) l
    where p.projection = l.projection and p.version = l.version and p.topic = l.topic and p.partition = l.partition
      and p.key = l.key and p.records > l.letters`,
};

const releaseStatement = {
  name: 'release-parked-keys-without-letters',
  text: `
    delete from projection_parked_key p
    using (select projection, topic, partition, key, version, count(*)::integer as letters
           from unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::integer[])
                  as l (projection, topic, partition, key, version)
           group by 1, 2, 3, 4, 5) l
    where p.projection = l.projection and p.version = l.version and p.topic = l.topic and p.partition = l.partition
      and p.key = l.key and p.records <= l.letters
    returning p.key`,
};

/**
 * Dropped letters no longer hold their keys: a key without any goes on. Each letter counts once, so there must be no two
 * about the same attempt of the same record. Answers how many keys were released.
 */
export const takeOffParkedKeys = async (tx: SqlRunner, letters: readonly DeadLetter[]): Promise<number> => {
  const dropped = letters.filter(isReplayable);
  if (dropped.length === 0) return 0;
  const values = [...placeValues(dropped), dropped.map(({ projectionVersion }) => projectionVersion ?? 0)];
  await tx.execute(lockStatement, values);
  // First those that end, or a key that has just one letter left would be taken for one that never had more.
  const released = await tx.execute(releaseStatement, values);
  await tx.execute(takeOffStatement, values);
  return released.length;
};
