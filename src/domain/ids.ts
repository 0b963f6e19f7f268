declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

export type ProductId = Branded<'ProductId'>;
export type UserId = Branded<'UserId'>;
export type OrderId = Branded<'OrderId'>;
export type PaymentId = Branded<'PaymentId'>;

/** The edges of the domain name what a text is; their schemas have checked it by then. */
export const productId = (text: string): ProductId => text as ProductId;
export const userId = (text: string): UserId => text as UserId;
export const orderId = (text: string): OrderId => text as OrderId;
export const paymentId = (text: string): PaymentId => text as PaymentId;
