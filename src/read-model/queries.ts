import type { SqlRunner } from '../postgres/database.ts';
import { getProductStatistic, type ProductStatistic } from './get-product-statistic.ts';

/** Everything that can be asked of the read side. */
export interface Queries {
  getProductStatistic(productId: string): Promise<ProductStatistic | null>;
}

export const createQueries = (db: SqlRunner): Queries => ({
  getProductStatistic: (productId) => getProductStatistic(db, productId),
});
