import { Type } from 'typebox';

const id = { minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9-]+$' };
/** Beyond this a number in JSON no longer says what was meant. */
const largestExactInteger = Number.MAX_SAFE_INTEGER;

export const ProductIdSchema = Type.String({ ...id, description: 'Letters, digits and dashes' });
export const UserIdSchema = Type.String(id);

export const ProductPath = Type.Object({ productId: ProductIdSchema });

export const RegisterProductBody = Type.Object(
  {
    productId: Type.Optional(ProductIdSchema),
    name: Type.String({ minLength: 1, maxLength: 200 }),
    priceMinor: Type.Integer({ minimum: 0, maximum: largestExactInteger }),
    currency: Type.String({ pattern: '^[A-Z]{3}$', description: 'ISO 4217 code' }),
    stock: Type.Integer({ minimum: 0, maximum: largestExactInteger }),
  },
  { additionalProperties: false },
);

export const RecordViewBody = Type.Object(
  { userId: Type.Optional(UserIdSchema) },
  { additionalProperties: false },
);

export const CommandAnswer = Type.Object({ productId: ProductIdSchema, version: Type.Integer() });

export const StatisticAnswer = Type.Object({
  productId: ProductIdSchema,
  likeCount: Type.Integer(),
  salesCount: Type.Integer(),
  viewCount: Type.Integer(),
  updatedAt: Type.String({ format: 'date-time' }),
});
