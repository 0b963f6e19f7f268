import { Type } from 'typebox';
import { largestAmountMinor } from '../domain/money.ts';
import { largestStock } from '../domain/product/product.ts';

/** Beyond this a number in JSON no longer says what was meant. */
const largestExactInteger = largestAmountMinor;
const quantityMax = 1_000_000;
const orderItemsMax = 100;

export const LargeInteger = Type.Integer({ minimum: -largestExactInteger, maximum: largestExactInteger });
export const Version = Type.Integer({
  minimum: 0,
  maximum: largestExactInteger,
  description: 'How often it has changed; the same as in ETag',
});

export const IdSchema = Type.String({
  pattern: '^[A-Za-z0-9-]{1,64}$',
  description: '1 to 64 letters, digits and dashes',
  examples: ['mill-1'],
});

/** Control characters and halves of characters would not come out of the database as they went in. */
const textOf = (options: { maxLength: number; description: string; example: string }) =>
  Type.String({
    minLength: 1,
    maxLength: options.maxLength,
    pattern: '^[^\\p{Cc}\\p{Cs}]*$',
    description: options.description,
    examples: [options.example],
  });

export const AmountMinor = Type.Integer({
  minimum: 0,
  maximum: largestExactInteger,
  description: 'In minor units of the currency',
  examples: [1999],
});
export const Currency = Type.String({
  pattern: '^[A-Z]{3}$',
  description: 'ISO 4217 code',
  examples: ['EUR'],
});

export const AmountSchema = Type.Object(
  { amountMinor: AmountMinor, currency: Currency },
  { additionalProperties: false },
);

export const ProductPath = Type.Object({ productId: IdSchema });
export const LikePath = Type.Object({ productId: IdSchema, userId: IdSchema });
export const OrderPath = Type.Object({ orderId: IdSchema });
export const PaymentPath = Type.Object({ paymentId: IdSchema });

/** Nothing is taken from the query string, so nothing in it is ignored. */
export const NoQuery = Type.Object({}, { additionalProperties: false });

/** A command that needs no body may come with none or with an empty object. */
export const NoBody = Type.Union([Type.Object({}, { additionalProperties: false }), Type.Null()]);

export const RegisterProductBody = Type.Object(
  {
    productId: Type.Optional(IdSchema),
    name: textOf({ maxLength: 200, description: 'What shoppers see', example: 'Coffee mill' }),
    priceMinor: AmountMinor,
    currency: Currency,
    stock: Type.Integer({ minimum: 0, maximum: largestStock, examples: [100] }),
  },
  { additionalProperties: false },
);

export const AdjustStockBody = Type.Object(
  {
    delta: Type.Integer({
      minimum: -largestStock,
      maximum: largestStock,
      description: 'Pieces that came (positive) or went (negative)',
      examples: [-3],
    }),
    reason: textOf({
      maxLength: 200,
      description: 'Why, for whoever reads the history',
      example: 'breakage',
    }),
  },
  { additionalProperties: false },
);

export const RecordViewBody = Type.Union([
  Type.Object({ userId: Type.Optional(IdSchema) }, { additionalProperties: false }),
  Type.Null(),
]);

export const PlaceOrderBody = Type.Object(
  {
    userId: IdSchema,
    items: Type.Array(
      Type.Object(
        {
          productId: IdSchema,
          quantity: Type.Integer({ minimum: 1, maximum: quantityMax, examples: [2] }),
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: orderItemsMax },
    ),
  },
  { additionalProperties: false },
);

export const CreatePaymentBody = Type.Object(
  {
    amountMinor: AmountMinor,
    method: textOf({ maxLength: 50, description: 'How it is paid', example: 'card' }),
  },
  { additionalProperties: false },
);

export const FailPaymentBody = Type.Union([
  Type.Object(
    {
      reason: Type.Optional(
        textOf({ maxLength: 200, description: 'Why it failed', example: 'card declined' }),
      ),
    },
    { additionalProperties: false },
  ),
  Type.Null(),
]);

export const ProductAnswer = Type.Object(
  { productId: IdSchema, version: Version },
  { additionalProperties: false },
);

export const StockAnswer = Type.Object(
  {
    productId: IdSchema,
    stock: Type.Integer({ minimum: 0, description: 'What is left' }),
    version: Version,
  },
  { additionalProperties: false },
);

export const LikeAnswer = Type.Object(
  { productId: IdSchema, userId: IdSchema, liked: Type.Boolean(), version: Version },
  { additionalProperties: false },
);

export const OrderStatus = Type.Union([
  Type.Literal('created'),
  Type.Literal('paid'),
  Type.Literal('canceled'),
]);

export const OrderAnswer = Type.Object(
  {
    orderId: IdSchema,
    status: OrderStatus,
    totalMinor: AmountMinor,
    currency: Currency,
    version: Version,
  },
  { additionalProperties: false },
);

export const PaymentAnswer = Type.Object(
  {
    paymentId: IdSchema,
    orderId: IdSchema,
    status: Type.Union([Type.Literal('created'), Type.Literal('paid'), Type.Literal('failed')]),
    amountMinor: AmountMinor,
    currency: Currency,
    version: Version,
  },
  { additionalProperties: false },
);

export const LiveAnswer = Type.Object({ status: Type.Literal('ok') }, { additionalProperties: false });

export const ReadyAnswer = Type.Object(
  {
    status: Type.Union([Type.Literal('ok'), Type.Literal('failing')]),
    checks: Type.Array(
      Type.Object(
        {
          name: Type.String(),
          status: Type.Union([Type.Literal('ok'), Type.Literal('failing')]),
          reason: Type.Optional(Type.String()),
        },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
);
