import { productId as asProductId, userId as asUserId } from '../domain/ids.ts';
import type { ProductAnswer } from './command.ts';
import { type CommandPlan, rejected } from './command-plan.ts';

/** A view is a stream of its own, named after its one event: views never contend, however many come. */
export const recordProductView = (input: {
  readonly productId: string;
  readonly userId: string | undefined;
  readonly eventId: string;
}): CommandPlan<ProductAnswer> => {
  const { productId, userId, eventId } = input;
  const viewId = `${productId}_${eventId}`;
  const stream = { aggregateType: 'ProductView', aggregateId: viewId } as const;
  return {
    streams: [{ ...stream, isNew: true }],
    mustExist: [{ aggregateType: 'Product', aggregateId: productId }],
    decide: (view) => {
      if (!view.exists('Product', productId)) return rejected({ reason: 'product-unknown' });
      const decision = view.decide('ProductView', viewId, {
        type: 'RecordProductView',
        productId: asProductId(productId),
        userId: userId === undefined ? null : asUserId(userId),
      });
      if (decision.outcome === 'rejected') return decision;
      return {
        outcome: 'accepted',
        changes: [{ stream, events: decision.events, firstEventId: eventId }],
        answer: (after) => ({ productId, version: after.version('ProductView', viewId) }),
      };
    },
  };
};
