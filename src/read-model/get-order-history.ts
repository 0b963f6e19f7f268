import { z } from 'zod';
import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';

const OrderHistory = z.strictObject({
  userId: z.string(),
  version: z.number().int(),
  events: z.array(
    z.strictObject({
      version: z.number().int(),
      event: z.string(),
      at: z.iso.datetime(),
      // Missing in entries that were written before the model kept them, until it is rebuilt.
      eventId: z.string().exactOptional(),
      data: z.record(z.string(), z.unknown()).exactOptional(),
    }),
  ),
});
export type OrderHistory = z.infer<typeof OrderHistory>;

/** Whose an order is and what has happened to it, as far as its model has heard. */
export const getOrderHistory = (db: SqlRunner, orderId: string): Promise<OrderHistory | null> =>
  db.checked((slonik) =>
    slonik.maybeOne(sql.type(OrderHistory)`
      select user_id as "userId", version, history as events from order_view where order_id = ${orderId}`),
  );
