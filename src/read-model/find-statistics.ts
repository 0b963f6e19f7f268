import type { SqlRunner } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';
import { ProductStatistic, statisticColumns } from './get-product-statistic.ts';

/** The statistics of some products; those that have none are left out. */
export const findStatistics = (
  db: SqlRunner,
  productIds: readonly string[],
): Promise<readonly ProductStatistic[]> =>
  db.checked((slonik) =>
    slonik.any(sql.type(ProductStatistic)`
      select ${statisticColumns} from product_statistic where product_id = any(${sql.array([...productIds], 'text')})`),
  );
