import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { Order, orderColumns } from './order.ts';

/** Some orders, whoever they belong to; those that are not there are left out. */
export const findOrders = (db: SqlRunner, orderIds: readonly string[]): Promise<readonly Order[]> =>
  db.checked((slonik) =>
    slonik.any(sql.type(Order)`
      select ${orderColumns} from order_view where order_id = any(${sql.array([...orderIds], 'text')})`),
  );
