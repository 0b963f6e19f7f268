import { accept, type Decider } from '../decider.ts';
import type { ProductId, UserId } from '../ids.ts';

export interface ProductViewed {
  readonly type: 'ProductViewed';
  readonly productId: ProductId;
  readonly userId: UserId | null;
}

export interface RecordProductView {
  readonly type: 'RecordProductView';
  readonly productId: ProductId;
  readonly userId: UserId | null;
}

/** A view is a fact of its own: nothing that happened before can forbid it, so views never contend. */
export interface ProductView {
  readonly status: 'fact';
}

export const productViewDecider = {
  initialState: { status: 'fact' },
  decide: ({ productId, userId }) => accept({ type: 'ProductViewed', productId, userId }),
  evolve: (view) => view,
} satisfies Decider<RecordProductView, ProductView, ProductViewed, never>;
