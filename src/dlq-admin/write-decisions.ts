import type { SqlRunner } from '../postgres/database.ts';
import { type DeadLetter, isReplayable } from './dead-letter.ts';
import { storable } from './decision.ts';

export interface NewDecision {
  readonly decision: 'replayed' | 'dropped';
  readonly who: string;
  readonly replayId: string | null;
}

// A decision that was not carried out, one that is overruled, and one about a letter of a topic that was there before under
// the same name: the new one takes their place, and the audit remembers them.
const forgetPlacesStatement = {
  name: 'forget-dead-letter-decisions-at-places',
  text: `
    delete from dead_letter_decision d
    using unnest($1::text[], $2::integer[], $3::bigint[]) as l (topic, partition, "offset")
    where d.dlq_topic = l.topic and d.dlq_partition = l.partition and d.dlq_offset = l.offset`,
};

const forgetRecordsStatement = {
  name: 'forget-dead-letter-decisions-of-records',
  text: `
    delete from dead_letter_decision d
    using unnest($1::text[], $2::integer[], $3::text[], $4::integer[], $5::bigint[], $6::integer[])
            as l (projection, version, topic, partition, "offset", attempt)
    where d.projection = l.projection and d.original_topic = l.topic and d.original_partition = l.partition
      and d.original_offset = l.offset and d.projection_version = l.version and d.attempt = l.attempt`,
};

const writeStatement = {
  name: 'write-dead-letter-decisions',
  text: `
    insert into dead_letter_decision
      (dlq_topic, dlq_partition, dlq_offset, projection, projection_version, original_topic, original_partition,
       original_offset, key, attempt, decision, who, replay_id, done_at)
    select l.*, $11, $12, $13, case when $11 = 'dropped' then clock_timestamp() end
    from unnest($1::text[], $2::integer[], $3::bigint[], $4::text[], $5::integer[], $6::text[], $7::integer[],
                $8::bigint[], $9::text[], $10::integer[]) as l`,
};

/** A drop is done with this; a replay is only intended, until Kafka has the record. */
export const writeDecisions = async (
  tx: SqlRunner,
  letters: readonly DeadLetter[],
  { decision, who, replayId }: NewDecision,
): Promise<void> => {
  const places = [
    letters.map(({ place }) => place.topic),
    letters.map(({ place }) => place.partition),
    letters.map(({ place }) => place.offset),
  ];
  const key = letters.map((letter) => storable(letter.key));
  const attempt = letters.map(({ replays }) => replays + 1);
  const record = [
    letters.map((letter) => (isReplayable(letter) ? storable(letter.projection) : null)),
    letters.map(({ projectionVersion }) => projectionVersion ?? 0),
    letters.map((letter) => (isReplayable(letter) ? letter.original.topic : null)),
    letters.map((letter) => (isReplayable(letter) ? letter.original.partition : null)),
    letters.map((letter) => (isReplayable(letter) ? letter.original.offset : null)),
  ];
  await tx.execute(forgetPlacesStatement, places);
  await tx.execute(forgetRecordsStatement, [...record, attempt]);
  await tx.execute(writeStatement, [...places, ...record, key, attempt, decision, who, replayId]);
};
