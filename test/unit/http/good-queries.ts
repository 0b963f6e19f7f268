import type { Histories } from '../../../src/http/api-ports.ts';
import type { Order } from '../../../src/read-model/order.ts';
import type { Queries } from '../../../src/read-model/queries.ts';

export const orderOf = (orderId: string, over: Partial<Order> = {}): Order => ({
  orderId,
  userId: 'alice',
  status: 'created',
  items: [{ productId: 'p-1', quantity: 3, unitPriceMinor: 100 }],
  totalMinor: 300,
  currency: 'EUR',
  paymentId: null,
  version: 1,
  createdAt: new Date('2026-01-01T10:00:00Z'),
  updatedAt: new Date('2026-01-01T10:00:00Z'),
  ...over,
});

const counts = { likeCount: 1, salesCount: 2, viewCount: 3 };

/** Read models that know whatever they are asked for. */
export const goodQueries: Queries = {
  getProduct: async (productId) => ({
    productId,
    name: 'Mill',
    priceMinor: 4900,
    currency: 'EUR',
    stock: 7,
    version: 4,
    updatedAt: new Date('2026-01-01T10:00:00Z'),
  }),
  getProductStatistic: async (productId) => ({ productId, ...counts, updatedAt: new Date(0) }),
  listProducts: async () => ({
    items: [{ productId: 'p-1', name: 'Mill', priceMinor: 4900, currency: 'EUR', stock: 7, ...counts }],
    next: { value: 2, id: 'p-1' },
  }),
  topTrends: async () => ({
    window: { from: new Date('2026-01-01T10:00:00Z'), to: new Date('2026-01-01T11:00:00Z') },
    products: [{ productId: 'p-1', name: null, ...counts }],
  }),
  risingProducts: async () => [
    {
      productId: 'p-1',
      name: 'Mill',
      viewCount: 7,
      likeCount: 2,
      from: new Date('2026-01-01T10:00:00Z'),
      to: new Date('2026-01-01T10:10:00Z'),
    },
  ],
  getOrder: async (orderId) => orderOf(orderId),
  getOrderHistory: async () => ({
    userId: 'alice',
    version: 1,
    events: [
      {
        eventId: 'e-1',
        event: 'loopers.order.created.v1',
        version: 1,
        at: '2026-01-01T10:00:00.000Z',
        data: { userId: 'alice' },
      },
    ],
  }),
  getOrderReceipt: async (orderId) => ({
    orderId,
    userId: 'alice',
    paymentId: 'pay-1',
    totalMinor: 300,
    currency: 'EUR',
    lines: [{ productId: 'p-1', name: 'Mill', quantity: 3, unitPriceMinor: 100 }],
    paidAt: new Date('2026-01-01T10:00:00Z'),
  }),
  listOrders: async () => ({
    items: [orderOf('o-1')],
    next: { value: new Date('2026-01-01T10:00:00Z'), id: 'o-1' },
  }),
  listAbandonedOrders: async () => ({
    items: [
      {
        orderId: 'o-1',
        userId: 'alice',
        totalMinor: 250,
        currency: 'EUR',
        createdAt: new Date('2026-01-01T10:00:00Z'),
        abandonedAt: new Date('2026-01-01T10:30:00Z'),
      },
    ],
    next: { value: new Date('2026-01-01T10:00:00Z'), id: 'o-1' },
  }),
  listStockOutages: async () => ({
    items: [
      {
        productId: 'p-1',
        name: 'Mill',
        outSince: new Date('2026-01-01T10:00:00Z'),
        overdueAt: new Date('2026-01-02T10:00:00Z'),
      },
      { productId: 'p-2', name: 'Race', outSince: new Date('2026-01-02T10:00:00Z'), overdueAt: null },
    ],
    next: { value: new Date('2026-01-02T10:00:00Z'), id: 'p-2' },
  }),
};

export const goodHistories: Histories = { orderAt: async (orderId) => orderOf(orderId) };
