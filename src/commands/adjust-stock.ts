import type { StockAnswer } from './command.ts';
import type { CommandPlan } from './command-plan.ts';

export const adjustStock = (input: {
  readonly productId: string;
  readonly delta: number;
  readonly reason: string;
}): CommandPlan<StockAnswer> => {
  const { productId, delta, reason } = input;
  const stream = { aggregateType: 'Product', aggregateId: productId } as const;
  return {
    streams: [stream],
    target: stream,
    decide: (view) => {
      const decision = view.decide('Product', productId, { type: 'AdjustStock', delta, reason });
      if (decision.outcome === 'rejected') return decision;
      return {
        outcome: 'accepted',
        changes: [{ stream, events: decision.events }],
        answer: (after) => {
          const product = after.state('Product', productId);
          const stock = product.status === 'registered' ? product.stock : 0;
          return { productId, stock, version: after.version('Product', productId) };
        },
      };
    },
  };
};
