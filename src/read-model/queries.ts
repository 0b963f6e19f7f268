import type { SqlRunner } from '../postgres/database.ts';
import { getOrder } from './get-order.ts';
import { getOrderHistory, type OrderHistory } from './get-order-history.ts';
import { getOrderReceipt, type OrderReceipt } from './get-order-receipt.ts';
import { getProduct, type Product } from './get-product.ts';
import { getProductStatistic, type ProductStatistic } from './get-product-statistic.ts';
import { type AbandonedListing, type AbandonedOrder, listAbandonedOrders } from './list-abandoned-orders.ts';
import { listOrders, type OrderListing } from './list-orders.ts';
import { type ListedProduct, listProducts, type ProductListing } from './list-products.ts';
import { listStockOutages, type OutageListing, type StockOutage } from './list-stock-outages.ts';
import type { Order } from './order.ts';
import type { Page } from './page.ts';
import { type RisingProduct, type RisingQuestion, risingProducts } from './rising-products.ts';
import { type TrendQuestion, type Trends, topTrends } from './top-trends.ts';

/** What queries read, by the name of the projection that makes it. */
export type ModelName =
  | 'product-statistic'
  | 'product-trend'
  | 'product-momentum'
  | 'order-view'
  | 'order-payment'
  | 'order-receipt'
  | 'stock-level'
  | 'stock-outage';

/** Everything that can be asked of the read side. */
export interface Queries {
  /** `afresh`: from the model itself, whatever may be cached. */
  getProduct(productId: string, options?: { readonly afresh?: boolean }): Promise<Product | null>;
  getProductStatistic(productId: string): Promise<ProductStatistic | null>;
  listProducts(listing: ProductListing): Promise<Page<ListedProduct, number>>;
  topTrends(question: TrendQuestion): Promise<Trends>;
  risingProducts(question: RisingQuestion): Promise<readonly RisingProduct[]>;
  getOrder(orderId: string): Promise<Order | null>;
  getOrderHistory(orderId: string): Promise<OrderHistory | null>;
  getOrderReceipt(orderId: string): Promise<OrderReceipt | null>;
  listOrders(listing: OrderListing): Promise<Page<Order, Date>>;
  listAbandonedOrders(listing: AbandonedListing): Promise<Page<AbandonedOrder, Date>>;
  listStockOutages(listing: OutageListing): Promise<Page<StockOutage, Date>>;
}

export const createQueries = (db: SqlRunner): Queries => ({
  getProduct: (productId) => getProduct(db, productId),
  getProductStatistic: (productId) => getProductStatistic(db, productId),
  listProducts: (listing) => listProducts(db, listing),
  topTrends: (question) => topTrends(db, question),
  risingProducts: (question) => risingProducts(db, question),
  getOrder: (orderId) => getOrder(db, orderId),
  getOrderHistory: (orderId) => getOrderHistory(db, orderId),
  getOrderReceipt: (orderId) => getOrderReceipt(db, orderId),
  listOrders: (listing) => listOrders(db, listing),
  listAbandonedOrders: (listing) => listAbandonedOrders(db, listing),
  listStockOutages: (listing) => listStockOutages(db, listing),
});
