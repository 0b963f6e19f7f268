import type { SqlRunner } from '../postgres/database.ts';

export interface HeldCounts {
  /** Tried again, or waiting behind one that is. */
  readonly failed: number;
  /** Waiting for an operator. */
  readonly dead: number;
}

const statement = {
  name: 'count-held-events',
  text: `
    select count(*) filter (where dead_at is null) as failed, count(*) filter (where dead_at is not null) as dead
    from outbox_failed`,
};

export const countHeldEvents = async (db: SqlRunner): Promise<HeldCounts> => {
  const [row] = await db.execute<HeldCounts>(statement);
  return row ?? { failed: 0, dead: 0 };
};
