import { z } from 'zod';
import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';

const Product = z.strictObject({
  productId: z.string(),
  name: z.string(),
  priceMinor: z.number().int(),
  currency: z.string(),
  stock: z.number().int(),
  version: z.number().int(),
  updatedAt: z.date(),
});
export type Product = z.infer<typeof Product>;

export const getProduct = (db: SqlRunner, productId: string): Promise<Product | null> =>
  db.checked((slonik) =>
    slonik.maybeOne(sql.type(Product)`
      select product_id as "productId", name, price_minor as "priceMinor", currency, stock, version,
             updated_at as "updatedAt"
      from stock_level
      where product_id = ${productId}`),
  );
