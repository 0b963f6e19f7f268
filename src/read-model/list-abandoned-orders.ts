import { z } from 'zod';
import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { type Direction, type Page, type Position, pageOf } from './page.ts';

/** An order that was neither paid nor canceled within half an hour, and has not been since. */
export const AbandonedOrder = z.strictObject({
  orderId: z.string(),
  userId: z.string(),
  totalMinor: z.number().int(),
  currency: z.string(),
  createdAt: z.date(),
  abandonedAt: z.date(),
});
export type AbandonedOrder = z.infer<typeof AbandonedOrder>;

export interface AbandonedListing {
  readonly direction: Direction;
  readonly limit: number;
  readonly after?: Position<Date> | undefined;
  /** Placed then or later. */
  readonly since?: Date | undefined;
}

/** Abandoned orders by the time they were placed. */
export const listAbandonedOrders = async (
  db: SqlRunner,
  { direction, limit, after, since }: AbandonedListing,
): Promise<Page<AbandonedOrder, Date>> => {
  const towards = direction === 'desc' ? sql.fragment`desc` : sql.fragment`asc`;
  const beyond = direction === 'desc' ? sql.fragment`<` : sql.fragment`>`;
  const conditions = [
    sql.fragment`outcome = 'abandoned'`,
    ...(after
      ? [sql.fragment`(created_at, order_id) ${beyond} (${sql.timestamp(after.value)}, ${after.id}::text)`]
      : []),
    ...(since === undefined ? [] : [sql.fragment`created_at >= ${sql.timestamp(since)}`]),
  ];
  const rows = await db.checked((slonik) =>
    slonik.any(sql.type(AbandonedOrder)`
      select order_id as "orderId", user_id as "userId", total_minor as "totalMinor", currency,
             created_at as "createdAt", abandoned_at as "abandonedAt"
      from order_payment
      where ${sql.join(conditions, sql.fragment` and `)}
      order by created_at ${towards}, order_id ${towards}
      limit ${limit + 1}`),
  );
  return pageOf(rows, limit, ({ createdAt, orderId }) => ({ value: createdAt, id: orderId }));
};
