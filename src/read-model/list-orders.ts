import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { Order, type OrderStatus, orderColumns } from './order.ts';
import { type Direction, type Page, type Position, pageOf } from './page.ts';

export interface OrderListing {
  readonly direction: Direction;
  readonly limit: number;
  readonly after?: Position<Date> | undefined;
  /** Everybody's when it is left out. */
  readonly userId?: string | undefined;
  readonly status?: OrderStatus | undefined;
}

/** Orders by the time they were placed. */
export const listOrders = async (db: SqlRunner, listing: OrderListing): Promise<Page<Order, Date>> => {
  const { direction, limit, after, userId, status } = listing;
  const towards = direction === 'desc' ? sql.fragment`desc` : sql.fragment`asc`;
  const beyond = direction === 'desc' ? sql.fragment`<` : sql.fragment`>`;
  const conditions = [
    sql.fragment`true`,
    ...(after
      ? [sql.fragment`(created_at, order_id) ${beyond} (${sql.timestamp(after.value)}, ${after.id}::text)`]
      : []),
    ...(userId === undefined ? [] : [sql.fragment`user_id = ${userId}`]),
    ...(status === undefined ? [] : [sql.fragment`status = ${status}`]),
  ];
  const rows = await db.checked((slonik) =>
    slonik.any(sql.type(Order)`
      select ${orderColumns}
      from order_view
      where ${sql.join(conditions, sql.fragment` and `)}
      order by created_at ${towards}, order_id ${towards}
      limit ${limit + 1}`),
  );
  return pageOf(rows, limit, ({ createdAt, orderId }) => ({ value: createdAt, id: orderId }));
};
