import { z } from 'zod';
import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';

/** What was paid for, with the names of the products. */
export const OrderReceipt = z.strictObject({
  orderId: z.string(),
  userId: z.string(),
  paymentId: z.string(),
  totalMinor: z.number().int(),
  currency: z.string(),
  lines: z.array(
    z.strictObject({
      productId: z.string(),
      name: z.string().nullable(),
      quantity: z.number().int(),
      unitPriceMinor: z.number().int(),
    }),
  ),
  paidAt: z.date(),
});
export type OrderReceipt = z.infer<typeof OrderReceipt>;

/** One that still waits for the name of a product is not there yet. */
export const getOrderReceipt = (db: SqlRunner, orderId: string): Promise<OrderReceipt | null> =>
  db.checked((slonik) =>
    slonik.maybeOne(sql.type(OrderReceipt)`
      select order_id as "orderId", user_id as "userId", payment_id as "paymentId", total_minor as "totalMinor", currency,
             (select jsonb_agg(jsonb_build_object('productId', line -> 'product_id',
                'name', line -> 'name', 'quantity', line -> 'quantity',
                'unitPriceMinor', line -> 'unit_price_minor') order by number)
              from jsonb_array_elements(lines) with ordinality as listed(line, number)) as lines,
             paid_at as "paidAt"
      from order_receipt where order_id = ${orderId} and jsonb_array_length(lines) = line_count`),
  );
