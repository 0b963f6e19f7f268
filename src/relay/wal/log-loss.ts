import type { SqlRunner } from '../../postgres/database.ts';

/** The slot was lost: until an operator lets them return, relays read the outbox by snapshots. */
export interface LogLoss {
  readonly slot: string;
  readonly reason: string;
  readonly since: Date;
}

const loadStatement = {
  name: 'load-log-loss',
  text: 'select slot, reason, since from relay_log_loss',
};

export const loadLogLoss = async (db: SqlRunner): Promise<LogLoss | null> => {
  const [loss] = await db.execute<LogLoss>(loadStatement);
  return loss ?? null;
};

const storeStatement = {
  name: 'store-log-loss',
  text: 'insert into relay_log_loss (slot, reason) values ($1, $2) on conflict do nothing',
};

export const storeLogLoss = async (
  tx: SqlRunner,
  { slot, reason }: Pick<LogLoss, 'slot' | 'reason'>,
): Promise<void> => {
  await tx.execute(storeStatement, [slot, reason]);
};

const forgetStatement = {
  name: 'forget-log-loss',
  text: 'delete from relay_log_loss returning slot, reason, since',
};

/** Null when there was none. */
export const forgetLogLoss = async (tx: SqlRunner): Promise<LogLoss | null> => {
  const [loss] = await tx.execute<LogLoss>(forgetStatement);
  return loss ?? null;
};
