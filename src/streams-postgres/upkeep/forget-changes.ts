import type { Logger } from 'pino';
import type { SqlRunner } from '../../postgres/database.ts';

// One horizon for all: whoever drops changes holds its row until they are gone, so it never lags behind what is missing.
const statement = {
  name: 'forget-changes',
  text: `
    with horizon as materialized (
      select forgotten_tx from model_change_horizon for update
    ), gone as (
      delete from model_change
      where id in (
        select id from model_change, horizon
        where changed_at < clock_timestamp() - $1 * interval '1 millisecond'
        order by id limit $2
      )
      returning tx_id
    ), newest as (
      select tx_id from gone order by tx_id desc limit 1
    ), moved as (
      update model_change_horizon set forgotten_tx = greatest(forgotten_tx, newest.tx_id) from newest
    )
    select count(*) as count from gone`,
};

const biteMax = 1000;

/** Drops changes that nobody may ask for any more. */
export const forgetChanges = async (db: SqlRunner, retentionMs: number): Promise<number> => {
  for (let sum = 0; ; ) {
    const [row] = await db.execute<{ count: number }>(statement, [retentionMs, biteMax]);
    sum += row?.count ?? 0;
    if ((row?.count ?? 0) < biteMax) return sum;
  }
};

const roundsPerRetention = 4;

/** Now and then, in every process that projects. */
export const startForgettingChanges = (options: {
  readonly database: SqlRunner;
  readonly retentionMs: number;
  readonly log: Logger;
}): { stop(): Promise<void> } => {
  const { database, retentionMs, log } = options;
  let round: Promise<unknown> = Promise.resolve();
  const forget = (): void => {
    round = forgetChanges(database, retentionMs).catch((error: unknown) =>
      log.warn({ err: error }, 'Old changes of read models could not be dropped; it is tried again'),
    );
  };
  const timer = setInterval(forget, retentionMs / roundsPerRetention);
  return {
    stop: async () => {
      clearInterval(timer);
      await round;
    },
  };
};
