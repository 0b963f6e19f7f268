import { orderId as asOrderId, productId as asProductId, userId as asUserId } from '../domain/ids.ts';
import type { OrderAnswer } from './command.ts';
import { type CommandPlan, rejected, type StreamChange, type StreamView } from './command-plan.ts';

/** Reserves every item and places the order, or does nothing at all: all streams change in one transaction. */
export const placeOrder = (input: {
  readonly orderId: string;
  readonly userId: string;
  readonly items: readonly { readonly productId: string; readonly quantity: number }[];
}): CommandPlan<OrderAnswer> => {
  const { orderId, userId, items } = input;
  const order = { aggregateType: 'Order', aggregateId: orderId } as const;
  const product = (id: string) => ({ aggregateType: 'Product', aggregateId: id }) as const;
  return {
    streams: [{ ...order, isNew: true }, ...items.map(({ productId }) => product(productId))],
    decide: (view) => {
      const priced = [];
      for (const { productId, quantity } of items) {
        const state = view.state('Product', productId);
        if (state.status !== 'registered') return rejected({ reason: 'product-unknown' });
        priced.push({
          productId: asProductId(productId),
          quantity,
          unitPriceMinor: state.price.amountMinor,
          currency: state.price.currency,
        });
      }
      const placed = view.decide('Order', orderId, {
        type: 'PlaceOrder',
        orderId: asOrderId(orderId),
        userId: asUserId(userId),
        items: priced,
      });
      if (placed.outcome === 'rejected') return placed;

      const changes: StreamChange[] = [{ stream: order, events: placed.events }];
      for (const { productId, quantity } of items) {
        const reserved = view.decide('Product', productId, {
          type: 'ReserveStock',
          orderId: asOrderId(orderId),
          quantity,
        });
        if (reserved.outcome === 'rejected') return reserved;
        changes.push({ stream: product(productId), events: reserved.events });
      }
      return { outcome: 'accepted', changes, answer: (after) => orderAnswer(after, orderId) };
    },
  };
};

export const orderAnswer = (after: StreamView, orderId: string): OrderAnswer => {
  const order = after.state('Order', orderId);
  if (order.status === 'none') throw new Error(`Order ${orderId} was accepted and is not there`);
  return {
    orderId,
    status: order.status,
    totalMinor: order.total.amountMinor,
    currency: order.total.currency,
    version: after.version('Order', orderId),
  };
};
