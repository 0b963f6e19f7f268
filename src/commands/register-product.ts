import { productId as asProductId } from '../domain/ids.ts';
import type { ProductAnswer } from './command.ts';
import type { CommandPlan } from './command-plan.ts';

export const registerProduct = (input: {
  readonly productId: string;
  readonly name: string;
  readonly priceMinor: number;
  readonly currency: string;
  readonly stock: number;
}): CommandPlan<ProductAnswer> => {
  const { productId, name, stock, priceMinor, currency } = input;
  const stream = { aggregateType: 'Product', aggregateId: productId } as const;
  return {
    streams: [stream],
    decide: (view) => {
      const decision = view.decide('Product', productId, {
        type: 'RegisterProduct',
        productId: asProductId(productId),
        name,
        price: { amountMinor: priceMinor, currency },
        stock,
      });
      if (decision.outcome === 'rejected') return decision;
      return {
        outcome: 'accepted',
        changes: [{ stream, events: decision.events }],
        answer: (after) => ({ productId, version: after.version('Product', productId) }),
      };
    },
  };
};
