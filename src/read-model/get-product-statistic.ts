import { z } from 'zod';
import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';

export const ProductStatistic = z.strictObject({
  productId: z.string(),
  likeCount: z.number().int(),
  salesCount: z.number().int(),
  viewCount: z.number().int(),
  updatedAt: z.date(),
});
export type ProductStatistic = z.infer<typeof ProductStatistic>;

export const statisticColumns = sql.fragment`
  product_id as "productId", like_count as "likeCount", sales_count as "salesCount", view_count as "viewCount",
  updated_at as "updatedAt"`;

export const getProductStatistic = (db: SqlRunner, productId: string): Promise<ProductStatistic | null> =>
  db.checked((slonik) =>
    slonik.maybeOne(sql.type(ProductStatistic)`
      select ${statisticColumns} from product_statistic where product_id = ${productId}`),
  );
