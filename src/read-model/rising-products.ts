import { z } from 'zod';
import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';

const RisingProduct = z.strictObject({
  productId: z.string(),
  /** Null until the product's own model knows it. */
  name: z.string().nullable(),
  viewCount: z.number().int(),
  likeCount: z.number().int(),
  from: z.date(),
  to: z.date(),
});
export type RisingProduct = z.infer<typeof RisingProduct>;

export interface RisingQuestion {
  readonly at: Date;
  readonly limit: number;
}

/** What was seen and liked most in the ten minutes up to its latest event, of what something has happened to just now. */
export const risingProducts = (
  db: SqlRunner,
  { at, limit }: RisingQuestion,
): Promise<readonly RisingProduct[]> =>
  db.checked((slonik) =>
    slonik.any(sql.type(RisingProduct)`
      select momentum.product_id as "productId", product.name,
             momentum.view_count as "viewCount", momentum.like_count as "likeCount",
             momentum.window_start as "from", momentum.window_end as "to"
      from (
        select product_id, view_count, like_count, window_start, window_end
        from product_momentum
        where closes_at > ${sql.timestamp(at)}
        order by view_count + like_count desc, product_id
        limit ${limit}
      ) momentum left join stock_level product using (product_id)
      order by momentum.view_count + momentum.like_count desc, momentum.product_id`),
  );
