import type { SqlRunner } from '../postgres/database.ts';
import { type DeadLetter, isReplayable } from './dead-letter.ts';
import { storable } from './decision.ts';

/** A key of which later versions are held until one comes that is missing. */
export interface WaitingKey {
  readonly projection: string;
  readonly step: string;
  readonly key: string;
  readonly missingVersion: number;
  /** How many are held. */
  readonly records: number;
}

/** More than anybody reads; `millrace status` counts all of them. */
const keysMax = 20;

const statement = {
  name: 'find-waiting-keys-of-letters',
  text: `
    select w.projection, w.state as step, w.key, w.missing_version as "missingVersion", w.records
    from projection_waiting_key w join projection_live using (projection, version)
    where (w.projection, w.key) in (select * from unnest($1::text[], $2::text[]))
    order by w.projection, w.state, w.key
    limit $3`,
};

/** Keys of the letters that wait for a version: it may be that of a letter, and then it will not come when that is dropped. */
export const findWaitingKeys = async (
  db: SqlRunner,
  letters: readonly DeadLetter[],
): Promise<readonly WaitingKey[]> => {
  const keyed = letters.filter(isReplayable).filter(({ key }) => key !== null);
  if (keyed.length === 0) return [];
  return db.execute<WaitingKey>(statement, [
    keyed.map(({ projection }) => storable(projection)),
    keyed.map(({ key }) => storable(key)),
    keysMax,
  ]);
};
