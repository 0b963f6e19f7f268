// Written by `millrace schemas types` from the schemas in avro; change those instead.

/** A user no longer likes a product. */
export interface LikeCanceledV1 {
  /** The product */
  readonly productId: string;
  /** Who liked it */
  readonly userId: string;
}

/** A user likes a product. */
export interface LikeCreatedV1 {
  /** The product */
  readonly productId: string;
  /** Who likes it */
  readonly userId: string;
}

/** An order was called off and its stock released. */
export interface OrderCanceledV1 {
  /** The order */
  readonly orderId: string;
  /** Whose order it is */
  readonly userId: string;
  /** What was ordered */
  readonly items: readonly OrderItemV1[];
  /** What the items cost together */
  readonly total: Money;
}

/** One line of an order. */
export interface OrderItemV1 {
  /** The product */
  readonly productId: string;
  /** Pieces */
  readonly quantity: number;
  /** Price of one piece at the time of the order, in minor units */
  readonly unitPriceMinor: number;
}

/** An amount in minor units of one currency. */
export interface Money {
  /** Minor units */
  readonly amountMinor: number;
  /** ISO 4217 code */
  readonly currency: string;
}

/** An order was placed and its stock reserved. */
export interface OrderCreatedV1 {
  /** The order */
  readonly orderId: string;
  /** Whose order it is */
  readonly userId: string;
  /** What was ordered */
  readonly items: readonly OrderItemV1[];
  /** What the items cost together */
  readonly total: Money;
}

/** An order was paid in full. */
export interface OrderPaidV1 {
  /** The order */
  readonly orderId: string;
  /** Whose order it is */
  readonly userId: string;
  /** What was ordered */
  readonly items: readonly OrderItemV1[];
  /** What the items cost together */
  readonly total: Money;
  /** The payment that settled it */
  readonly paymentId: string;
}

/** Somebody began to pay an order. */
export interface PaymentCreatedV1 {
  /** The payment */
  readonly paymentId: string;
  /** The order it is for */
  readonly orderId: string;
  /** Who pays */
  readonly userId: string;
  /** How much */
  readonly amount: Money;
  /** How, as the payment provider calls it */
  readonly method: string;
}

/** The money will not come. */
export interface PaymentFailedV1 {
  /** The payment */
  readonly paymentId: string;
  /** The order it is for */
  readonly orderId: string;
  /** Who pays */
  readonly userId: string;
  /** How much */
  readonly amount: Money;
  /** How, as the payment provider calls it */
  readonly method: string;
  /** Why, as the payment provider put it */
  readonly reason: string;
}

/** The money has arrived. */
export interface PaymentPaidV1 {
  /** The payment */
  readonly paymentId: string;
  /** The order it is for */
  readonly orderId: string;
  /** Who pays */
  readonly userId: string;
  /** How much */
  readonly amount: Money;
  /** How, as the payment provider calls it */
  readonly method: string;
}

/** A product can be bought from now on. */
export interface ProductRegisteredV1 {
  /** The product */
  readonly productId: string;
  /** What shoppers read */
  readonly name: string;
  /** Price in minor units of the currency */
  readonly priceMinor: number;
  /** ISO 4217 code */
  readonly currency: string;
  /** Pieces available at the start */
  readonly stock: number;
}

/** A product can be bought from now on. */
export interface ProductRegisteredV2 {
  /** The product */
  readonly productId: string;
  /** What shoppers read */
  readonly name: string;
  /** Price of one piece */
  readonly price: Money;
  /** Pieces available at the start */
  readonly stock: number;
}

/** Somebody looked at a product. */
export interface ProductViewedV1 {
  /** The product */
  readonly productId: string;
  /** Who looked, when that is known */
  readonly userId: string | null;
}

/** A record of a stream on its way to the partition of another key. */
export interface RecordRekeyedV1 {
  /** The step that sends it and waits for it: <projection>/<name> */
  readonly through: string;
  /** The other key */
  readonly key: string;
  /** The value of the record as JSON */
  readonly value: string;
}

/** Somebody corrected the stock of a product. */
export interface StockAdjustedV1 {
  /** The product */
  readonly productId: string;
  /** Pieces added, or taken when negative */
  readonly delta: number;
  /** Why, in the words of whoever did it */
  readonly reason: string;
  /** Pieces available afterwards */
  readonly stock: number;
}

/** The last available piece of a product is gone. */
export interface StockDepletedV1 {
  /** The product */
  readonly productId: string;
}

/** Pieces set aside for an order are available again. */
export interface StockReleasedV1 {
  /** The product */
  readonly productId: string;
  /** The order they were for */
  readonly orderId: string;
  /** Pieces given back */
  readonly quantity: number;
  /** Pieces available afterwards */
  readonly stock: number;
}

/** Pieces were set aside for an order. */
export interface StockReservedV1 {
  /** The product */
  readonly productId: string;
  /** The order they are for */
  readonly orderId: string;
  /** Pieces set aside */
  readonly quantity: number;
  /** Pieces available afterwards */
  readonly stock: number;
}

/** What each schema file describes. */
export interface EventDataByFile {
  readonly 'like-canceled.v1.avsc': LikeCanceledV1;
  readonly 'like-created.v1.avsc': LikeCreatedV1;
  readonly 'order-canceled.v1.avsc': OrderCanceledV1;
  readonly 'order-created.v1.avsc': OrderCreatedV1;
  readonly 'order-paid.v1.avsc': OrderPaidV1;
  readonly 'payment-created.v1.avsc': PaymentCreatedV1;
  readonly 'payment-failed.v1.avsc': PaymentFailedV1;
  readonly 'payment-paid.v1.avsc': PaymentPaidV1;
  readonly 'product-registered.v1.avsc': ProductRegisteredV1;
  readonly 'product-registered.v2.avsc': ProductRegisteredV2;
  readonly 'product-viewed.v1.avsc': ProductViewedV1;
  readonly 'record-rekeyed.v1.avsc': RecordRekeyedV1;
  readonly 'stock-adjusted.v1.avsc': StockAdjustedV1;
  readonly 'stock-depleted.v1.avsc': StockDepletedV1;
  readonly 'stock-released.v1.avsc': StockReleasedV1;
  readonly 'stock-reserved.v1.avsc': StockReservedV1;
}
