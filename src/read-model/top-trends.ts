import { z } from 'zod';
import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { trendWindows } from '../projections/product-trend.ts';
import { windowStarts } from '../streams/windows.ts';
import { type ProductCount, productCounts } from './list-products.ts';

const TrendingProduct = z.strictObject({
  productId: z.string(),
  /** Null until the product's own model knows it. */
  name: z.string().nullable(),
  likeCount: z.number().int(),
  salesCount: z.number().int(),
  viewCount: z.number().int(),
});
export type TrendingProduct = z.infer<typeof TrendingProduct>;

export interface TrendQuestion {
  readonly at: Date;
  readonly sort: ProductCount;
  readonly limit: number;
}

export interface Trends {
  readonly window: { readonly from: Date; readonly to: Date };
  readonly products: readonly TrendingProduct[];
}

/** Of the windows that a time falls into, the one that has seen most: it began longest ago. */
export const fullestWindowAt = (at: Date): Trends['window'] => {
  const [startMs = at.getTime()] = windowStarts(trendWindows, at.getTime());
  return { from: new Date(startMs), to: new Date(startMs + trendWindows.sizeMs) };
};

/** What sells, is liked or is seen most at a time. */
export const topTrends = async (db: SqlRunner, { at, sort, limit }: TrendQuestion): Promise<Trends> => {
  const count = sql.identifier(['trend', productCounts[sort].column]);
  const window = fullestWindowAt(at);
  const products = await db.checked((slonik) =>
    slonik.any(sql.type(TrendingProduct)`
      select trend.product_id as "productId", product.name,
             trend.like_count as "likeCount", trend.sales_count as "salesCount", trend.view_count as "viewCount"
      from (
        select product_id, like_count, sales_count, view_count
        from product_trend trend
        where window_start = ${sql.timestamp(window.from)} and ${count} > 0
        order by ${count} desc, product_id
        limit ${limit}
      ) trend left join stock_level product using (product_id)
      order by ${count} desc, trend.product_id`),
  );
  return { window, products };
};
