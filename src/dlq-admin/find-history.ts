import type { SqlRunner } from '../postgres/database.ts';
import { type DeadLetter, isReplayable } from './dead-letter.ts';
import { type Decision, decisionColumns, storable } from './decision.ts';
import { findDecisions } from './find-decisions.ts';

// Bounded: the cap on replays can be overruled, but nobody does so that often.
const statement = {
  name: 'find-history-of-record',
  text: `
    select ${decisionColumns}
    from dead_letter_decision d
    where projection = $1 and original_topic = $2 and original_partition = $3 and original_offset = $4
    order by attempt, decided_at
    limit 1000`,
};

/** Everything that was decided about the record of a letter, for its projection: earlier replays included, oldest first. */
export const findHistory = async (db: SqlRunner, letter: DeadLetter): Promise<readonly Decision[]> => {
  if (!isReplayable(letter))
    return (await findDecisions(db, [letter])).filter((found) => found !== undefined);
  const { topic, partition, offset } = letter.original;
  return db.execute<Decision>(statement, [storable(letter.projection), topic, partition, offset]);
};
