import { z } from 'zod';
import { sql } from '../postgres/sql.ts';

const status = z.enum(['created', 'paid', 'canceled']);
export type OrderStatus = z.infer<typeof status>;

/** An order as its buyer sees it. */
export const Order = z.strictObject({
  orderId: z.string(),
  userId: z.string(),
  status,
  items: z.array(
    z.strictObject({
      productId: z.string(),
      quantity: z.number().int(),
      unitPriceMinor: z.number().int(),
    }),
  ),
  totalMinor: z.number().int(),
  currency: z.string(),
  paymentId: z.string().nullable(),
  version: z.number().int(),
  createdAt: z.date(),
  updatedAt: z.date(),
});
export type Order = z.infer<typeof Order>;

export const orderColumns = sql.fragment`
  order_id as "orderId", user_id as "userId", status, items, total_minor as "totalMinor", currency,
  payment_id as "paymentId", version, created_at as "createdAt", updated_at as "updatedAt"`;
