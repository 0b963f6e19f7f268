import { Type } from 'typebox';
import { AmountMinor, Currency, IdSchema, OrderStatus, Version } from './schemas.ts';

const Time = Type.String({ format: 'date-time' });
const Count = Type.Integer({ minimum: 0 });

/** Everything in a query string is text, and nothing here turns text into numbers behind anybody's back. */
const Limit = Type.String({
  pattern: '^([1-9][0-9]?|100)$',
  description: 'At most so many, up to 100; 20 unless told',
  examples: ['20'],
});
const AmountText = (description: string) =>
  Type.String({ pattern: '^(0|[1-9][0-9]{0,14})$', description, examples: ['1000'] });
const Cursor = Type.String({
  pattern: '^[A-Za-z0-9_-]{1,400}$',
  description: 'Where the next page goes on: `next` of the page before, asked in the same order',
});
const Direction = (fallback: string) =>
  Type.Union([Type.Literal('asc'), Type.Literal('desc')], { description: `${fallback} unless told` });
const ProductSort = Type.Union([Type.Literal('sales'), Type.Literal('likes'), Type.Literal('views')], {
  description: 'Which count decides; sales unless told',
});

const next = Type.Union([Type.String(), Type.Null()], {
  description: 'The cursor of the next page; null when this is the last',
});

export const ProductView = Type.Object(
  {
    productId: IdSchema,
    name: Type.String(),
    priceMinor: AmountMinor,
    currency: Currency,
    stock: Type.Integer({ minimum: 0, description: 'What is left' }),
    version: Version,
    updatedAt: Time,
  },
  { additionalProperties: false },
);

export const ListProductsQuery = Type.Object(
  {
    sort: Type.Optional(ProductSort),
    direction: Type.Optional(Direction('desc')),
    limit: Type.Optional(Limit),
    cursor: Type.Optional(Cursor),
    inStock: Type.Optional(
      Type.Union([Type.Literal('true'), Type.Literal('false')], {
        description: 'Only those that can be bought now, or only those that are sold out',
      }),
    ),
    currency: Type.Optional(Currency),
    priceMinorMin: Type.Optional(AmountText('Only those that cost so much or more')),
    priceMinorMax: Type.Optional(AmountText('Only those that cost so much or less')),
  },
  { additionalProperties: false },
);

const counts = { likeCount: Count, salesCount: Count, viewCount: Count };

const ListedProduct = Type.Object(
  {
    productId: IdSchema,
    name: Type.String(),
    priceMinor: AmountMinor,
    currency: Currency,
    stock: Type.Integer({ minimum: 0 }),
    ...counts,
  },
  { additionalProperties: false },
);
export const ProductPage = Type.Object(
  { products: Type.Array(ListedProduct), next },
  { additionalProperties: false },
);

export const ListStockOutagesQuery = Type.Object(
  {
    overdue: Type.Optional(
      Type.Union([Type.Literal('true'), Type.Literal('false')], {
        description: 'Only products that have been out of stock for too long, or that have not',
      }),
    ),
    direction: Type.Optional(Direction('asc, the longest outage first,')),
    limit: Type.Optional(Limit),
    cursor: Type.Optional(Cursor),
  },
  { additionalProperties: false },
);

export const StockOutagePage = Type.Object(
  {
    products: Type.Array(
      Type.Object(
        {
          productId: IdSchema,
          name: Type.String(),
          outSince: Time,
          overdueAt: Type.Union([Time, Type.Null()], {
            description: 'Since when it has been out of stock for too long; null as long as it has not',
          }),
        },
        { additionalProperties: false },
      ),
    ),
    next,
  },
  { additionalProperties: false },
);

export const TrendsQuery = Type.Object(
  {
    window: Type.Optional(Type.Literal('1h', { description: 'The last hour, told anew every five minutes' })),
    sort: Type.Optional(ProductSort),
    limit: Type.Optional(Limit),
  },
  { additionalProperties: false },
);

export const TrendsAnswer = Type.Object(
  {
    window: Type.Object({ from: Time, to: Time }, { additionalProperties: false }),
    products: Type.Array(
      Type.Object(
        {
          productId: IdSchema,
          name: Type.Union([Type.String(), Type.Null()], {
            description: 'Null as long as the product itself is not projected',
          }),
          ...counts,
        },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
);

export const RisingQuery = Type.Object({ limit: Type.Optional(Limit) }, { additionalProperties: false });

export const RisingAnswer = Type.Object(
  {
    products: Type.Array(
      Type.Object(
        {
          productId: IdSchema,
          name: Type.Union([Type.String(), Type.Null()], {
            description: 'Null as long as the product itself is not projected',
          }),
          viewCount: counts.viewCount,
          likeCount: counts.likeCount,
          from: Time,
          to: Time,
        },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
);

export const OrderView = Type.Object(
  {
    orderId: IdSchema,
    userId: IdSchema,
    status: OrderStatus,
    items: Type.Array(
      Type.Object(
        { productId: IdSchema, quantity: Type.Integer({ minimum: 1 }), unitPriceMinor: AmountMinor },
        { additionalProperties: false },
      ),
    ),
    totalMinor: AmountMinor,
    currency: Currency,
    paymentId: Type.Union([Type.String(), Type.Null()], { description: 'Null until it is paid' }),
    version: Version,
    createdAt: Time,
    updatedAt: Time,
  },
  { additionalProperties: false },
);

export const GetOrderQuery = Type.Object(
  {
    at: Type.Optional(
      Type.Union(
        [
          Type.String({ pattern: '^[1-9][0-9]{0,8}$', description: 'A version', examples: ['2'] }),
          Type.String({ format: 'date-time', description: 'A time', examples: ['2026-01-31T12:00:00Z'] }),
        ],
        { description: 'The order as it was then, from the journal; for operators' },
      ),
    ),
  },
  { additionalProperties: false },
);

export const ListOrdersQuery = Type.Object(
  {
    userId: Type.Optional(IdSchema),
    status: Type.Optional(OrderStatus),
    direction: Type.Optional(Direction('desc, the newest first,')),
    limit: Type.Optional(Limit),
    cursor: Type.Optional(Cursor),
  },
  { additionalProperties: false },
);

export const OrderPage = Type.Object(
  { orders: Type.Array(OrderView), next },
  { additionalProperties: false },
);

export const ListAbandonedOrdersQuery = Type.Object(
  {
    since: Type.Optional(
      Type.String({
        format: 'date-time',
        description: 'Only orders that were placed then or later',
        examples: ['2026-01-31T12:00:00Z'],
      }),
    ),
    direction: Type.Optional(Direction('desc, the newest first,')),
    limit: Type.Optional(Limit),
    cursor: Type.Optional(Cursor),
  },
  { additionalProperties: false },
);

export const AbandonedOrderPage = Type.Object(
  {
    orders: Type.Array(
      Type.Object(
        {
          orderId: IdSchema,
          userId: IdSchema,
          totalMinor: AmountMinor,
          currency: Currency,
          createdAt: Time,
          abandonedAt: Time,
        },
        { additionalProperties: false },
      ),
    ),
    next,
  },
  { additionalProperties: false },
);

export const OrderReceiptAnswer = Type.Object(
  {
    orderId: IdSchema,
    userId: IdSchema,
    paymentId: IdSchema,
    totalMinor: AmountMinor,
    currency: Currency,
    lines: Type.Array(
      Type.Object(
        {
          productId: IdSchema,
          name: Type.Union([Type.String(), Type.Null()], {
            description: 'What the product is called; null where nobody has heard of it yet',
          }),
          quantity: Type.Integer({ minimum: 1 }),
          unitPriceMinor: AmountMinor,
        },
        { additionalProperties: false },
      ),
    ),
    paidAt: Time,
  },
  { additionalProperties: false },
);

export const OrderHistoryAnswer = Type.Object(
  {
    orderId: IdSchema,
    version: Version,
    events: Type.Array(
      Type.Object(
        {
          eventId: Type.Optional(Type.String()),
          type: Type.String({ examples: ['loopers.order.created.v1'] }),
          version: Version,
          time: Time,
          data: Type.Optional(
            Type.Record(Type.String(), Type.Unknown(), { description: 'What the event says' }),
          ),
        },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
);

export const StatisticAnswer = Type.Object(
  {
    productId: IdSchema,
    likeCount: Type.Integer(),
    salesCount: Type.Integer(),
    viewCount: Type.Integer(),
    updatedAt: Time,
  },
  { additionalProperties: false },
);
