import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { Order, orderColumns } from './order.ts';

export const getOrder = (db: SqlRunner, orderId: string): Promise<Order | null> =>
  db.checked((slonik) =>
    slonik.maybeOne(sql.type(Order)`select ${orderColumns} from order_view where order_id = ${orderId}`),
  );
