import type { SqlRunner } from '../postgres/database.ts';
import { type DeadLetter, isReplayable } from './dead-letter.ts';
import { type Decision, decisionColumns, storable } from './decision.ts';

interface FoundDecision extends Decision {
  readonly position: number;
}

const ofRecordsStatement = {
  name: 'find-decisions-of-records',
  text: `
    select l.position, ${decisionColumns}
    from unnest($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::integer[], $6::integer[]) with ordinality
           as l (projection, topic, partition, "offset", version, attempt, position)
    join dead_letter_decision d
      on d.projection = l.projection and d.original_topic = l.topic and d.original_partition = l.partition
     and d.original_offset = l.offset and d.projection_version = l.version and d.attempt = l.attempt`,
};

const atPlacesStatement = {
  name: 'find-decisions-at-places',
  text: `
    select l.position, ${decisionColumns}
    from unnest($1::text[], $2::integer[], $3::bigint[]) with ordinality as l (topic, partition, "offset", position)
    join dead_letter_decision d
      on d.dlq_topic = l.topic and d.dlq_partition = l.partition and d.dlq_offset = l.offset
     and (d.projection is null or d.original_topic is null)`,
};

/** What has been decided about these letters, or about their like; in their order, undefined where nothing has. */
export const findDecisions = async (
  db: SqlRunner,
  letters: readonly DeadLetter[],
): Promise<readonly (Decision | undefined)[]> => {
  const ours = letters.filter(isReplayable);
  const foreign = letters.filter((letter) => !isReplayable(letter));
  const found = new Map<DeadLetter, Decision>();
  const note = (asked: readonly DeadLetter[], rows: readonly FoundDecision[]): void => {
    for (const { position, ...decision } of rows) {
      const letter = asked[position - 1];
      if (letter) found.set(letter, decision);
    }
  };
  if (ours.length > 0) {
    const rows = await db.execute<FoundDecision>(ofRecordsStatement, [
      ours.map(({ projection }) => storable(projection)),
      ours.map(({ original }) => original.topic),
      ours.map(({ original }) => original.partition),
      ours.map(({ original }) => original.offset),
      ours.map(({ projectionVersion }) => projectionVersion ?? 0),
      ours.map(({ replays }) => replays + 1),
    ]);
    note(ours, rows);
  }
  if (foreign.length > 0) {
    const rows = await db.execute<FoundDecision>(atPlacesStatement, [
      foreign.map(({ place }) => place.topic),
      foreign.map(({ place }) => place.partition),
      foreign.map(({ place }) => place.offset),
    ]);
    note(foreign, rows);
  }
  return letters.map((letter) => found.get(letter));
};
