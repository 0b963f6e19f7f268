import { productId as asProductId, userId as asUserId } from '../domain/ids.ts';
import type { LikeAnswer } from './command.ts';
import { type CommandPlan, rejected } from './command-plan.ts';

/** Ids have no underscore, so the two together name one pair only. */
const likeId = (productId: string, userId: string): string => `${productId}_${userId}`;

export const changeLike = (
  change: 'LikeProduct' | 'UnlikeProduct',
  { productId, userId }: { readonly productId: string; readonly userId: string },
): CommandPlan<LikeAnswer> => {
  const id = likeId(productId, userId);
  const stream = { aggregateType: 'Like', aggregateId: id } as const;
  return {
    streams: [stream],
    mustExist: [{ aggregateType: 'Product', aggregateId: productId }],
    target: stream,
    decide: (view) => {
      if (!view.exists('Product', productId)) return rejected({ reason: 'product-unknown' });
      const decision = view.decide('Like', id, {
        type: change,
        productId: asProductId(productId),
        userId: asUserId(userId),
      });
      if (decision.outcome === 'rejected') return decision;
      return {
        outcome: 'accepted',
        changes: [{ stream, events: decision.events }],
        answer: (after) => ({
          productId,
          userId,
          liked: after.state('Like', id).status === 'liked',
          version: after.version('Like', id),
        }),
      };
    },
  };
};
