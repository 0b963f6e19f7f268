import type { SqlRunner } from '../../postgres/database.ts';
import type { Lease } from '../lease.ts';

const statement = {
  name: 'hold-lease',
  text: 'select token from scheduler_lock where name = $1 and token = $2 for share',
};

/** Whether the lease is still ours, and keeps it so until the transaction ends. */
export const holdLease = async (tx: SqlRunner, lease: Lease): Promise<boolean> =>
  (await tx.execute(statement, [lease.name, lease.token])).length > 0;
