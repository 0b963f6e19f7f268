import { named } from '../streams/step-name.ts';
import type { EnvelopeOf } from './of-event.ts';

/** The product that an event is about. */
export const product = named(
  'product',
  ({ data }: { readonly data: { readonly productId: string } }): string => data.productId,
);

export interface SoldItem {
  readonly productId: string;
  readonly quantity: number;
  readonly orderId: string;
}

export const soldItems = named(
  'soldItems',
  ({ data, aggregateId }: EnvelopeOf<'OrderPaid'>): readonly SoldItem[] =>
    data.items.map(({ productId, quantity }) => ({ productId, quantity, orderId: aggregateId })),
);

export const soldProduct = named('soldProduct', ({ productId }: SoldItem): string => productId);

/** An order is sold once, even if two events should ever tell of it. */
export const oncePerOrder = ({ orderId }: SoldItem) => ({ aggregateType: 'Order', aggregateId: orderId });
