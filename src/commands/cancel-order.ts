import { orderId as asOrderId, type UserId } from '../domain/ids.ts';
import type { OrderAnswer } from './command.ts';
import { type CommandPlan, rejected, type StreamChange } from './command-plan.ts';
import { orderAnswer } from './place-order.ts';

/** Calls an order off and gives its pieces back, in one transaction. */
export const cancelOrder = (input: {
  readonly orderId: string;
  readonly actingUser: UserId | undefined;
}): CommandPlan<OrderAnswer> => {
  const { orderId, actingUser } = input;
  const stream = { aggregateType: 'Order', aggregateId: orderId } as const;
  const product = (id: string) => ({ aggregateType: 'Product', aggregateId: id }) as const;
  return {
    streams: [stream],
    moreStreams: (view) => {
      const order = view.state('Order', orderId);
      return order.status === 'created' ? order.items.map(({ productId }) => product(productId)) : [];
    },
    target: stream,
    decide: (view) => {
      const order = view.state('Order', orderId);
      if (order.status === 'none') return rejected({ reason: 'order-unknown' });
      if (actingUser !== undefined && order.userId !== actingUser) return rejected({ reason: 'not-yours' });
      const canceled = view.decide('Order', orderId, { type: 'CancelOrder' });
      if (canceled.outcome === 'rejected') return canceled;

      const changes: StreamChange[] = [{ stream, events: canceled.events }];
      for (const { productId, quantity } of order.items) {
        const released = view.decide('Product', productId, {
          type: 'ReleaseStock',
          orderId: asOrderId(orderId),
          quantity,
        });
        if (released.outcome === 'rejected') return released;
        changes.push({ stream: product(productId), events: released.events });
      }
      return { outcome: 'accepted', changes, answer: (after) => orderAnswer(after, orderId) };
    },
  };
};
