import { z } from 'zod';
import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { type Direction, type Page, type Position, pageOf } from './page.ts';

const ListedProduct = z.strictObject({
  productId: z.string(),
  name: z.string(),
  priceMinor: z.number().int(),
  currency: z.string(),
  stock: z.number().int(),
  likeCount: z.number().int(),
  salesCount: z.number().int(),
  viewCount: z.number().int(),
});
export type ListedProduct = z.infer<typeof ListedProduct>;

export const productCounts = {
  sales: { column: 'sales_count', field: 'salesCount' },
  likes: { column: 'like_count', field: 'likeCount' },
  views: { column: 'view_count', field: 'viewCount' },
} as const;
export type ProductCount = keyof typeof productCounts;

export interface ProductListing {
  readonly sort: ProductCount;
  readonly direction: Direction;
  readonly limit: number;
  readonly after?: Position<number> | undefined;
  readonly inStock?: boolean | undefined;
  readonly currency?: string | undefined;
  readonly priceMinorMin?: number | undefined;
  readonly priceMinorMax?: number | undefined;
}

/** Products in the order of one of their counts. Counts move while one pages: a product may be met twice, or not at all. */
export const listProducts = async (
  db: SqlRunner,
  listing: ProductListing,
): Promise<Page<ListedProduct, number>> => {
  const { sort, direction, limit } = listing;
  const { column, field } = productCounts[sort];
  const count = sql.identifier(['counted', column]);
  const towards = direction === 'desc' ? sql.fragment`desc` : sql.fragment`asc`;
  const rows = await db.checked((slonik) =>
    slonik.any(sql.type(ListedProduct)`
      select product_id as "productId", product.name, product.price_minor as "priceMinor", product.currency, product.stock,
             counted.like_count as "likeCount", counted.sales_count as "salesCount", counted.view_count as "viewCount"
      from product_statistic counted join stock_level product using (product_id)
      where ${sql.join(conditionsOf(listing, count), sql.fragment` and `)}
      order by ${count} ${towards}, counted.product_id ${towards}
      limit ${limit + 1}`),
  );
  return pageOf(rows, limit, (product) => ({ value: product[field], id: product.productId }));
};

const conditionsOf = (listing: ProductListing, count: ReturnType<typeof sql.identifier>) => {
  const { after, direction, inStock, currency, priceMinorMin, priceMinorMax } = listing;
  const beyond = direction === 'desc' ? sql.fragment`<` : sql.fragment`>`;
  return [
    sql.fragment`true`,
    ...(after
      ? [sql.fragment`(${count}, counted.product_id) ${beyond} (${after.value}::bigint, ${after.id}::text)`]
      : []),
    ...(inStock === undefined ? [] : [sql.fragment`(product.stock > 0) = ${inStock}`]),
    ...(currency === undefined ? [] : [sql.fragment`product.currency = ${currency}`]),
    ...(priceMinorMin === undefined ? [] : [sql.fragment`product.price_minor >= ${priceMinorMin}`]),
    ...(priceMinorMax === undefined ? [] : [sql.fragment`product.price_minor <= ${priceMinorMax}`]),
  ];
};
