import { z } from 'zod';
import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { type Direction, type Page, type Position, pageOf } from './page.ts';

/** A product that is out of stock. */
export const StockOutage = z.strictObject({
  productId: z.string(),
  name: z.string(),
  outSince: z.date(),
  overdueAt: z.date().nullable(),
});
export type StockOutage = z.infer<typeof StockOutage>;

export interface OutageListing {
  readonly direction: Direction;
  readonly limit: number;
  readonly after?: Position<Date> | undefined;
  /** Only those that are overdue, or are not. */
  readonly isOverdue?: boolean | undefined;
}

/** Products that are out of stock, by since when. */
export const listStockOutages = async (
  db: SqlRunner,
  { direction, limit, after, isOverdue }: OutageListing,
): Promise<Page<StockOutage, Date>> => {
  const towards = direction === 'desc' ? sql.fragment`desc` : sql.fragment`asc`;
  const beyond = direction === 'desc' ? sql.fragment`<` : sql.fragment`>`;
  const conditions = [
    sql.fragment`true`,
    ...(after
      ? [sql.fragment`(out_since, product_id) ${beyond} (${sql.timestamp(after.value)}, ${after.id}::text)`]
      : []),
    ...(isOverdue === undefined ? [] : [sql.fragment`(overdue_at is not null) = ${isOverdue}`]),
  ];
  const rows = await db.checked((slonik) =>
    slonik.any(sql.type(StockOutage)`
      select product_id as "productId", name, out_since as "outSince", overdue_at as "overdueAt"
      from stock_outage
      where ${sql.join(conditions, sql.fragment` and `)}
      order by out_since ${towards}, product_id ${towards}
      limit ${limit + 1}`),
  );
  return pageOf(rows, limit, ({ outSince, productId }) => ({ value: outSince, id: productId }));
};
