import { assertNever } from '../assert-never.ts';
import { accept, type Decider } from '../decider.ts';
import type { ProductId, UserId } from '../ids.ts';

export interface LikeCreated {
  readonly type: 'LikeCreated';
  readonly productId: ProductId;
  readonly userId: UserId;
}
export interface LikeCanceled {
  readonly type: 'LikeCanceled';
  readonly productId: ProductId;
  readonly userId: UserId;
}
export type LikeEvent = LikeCreated | LikeCanceled;

export interface LikeProduct {
  readonly type: 'LikeProduct';
  readonly productId: ProductId;
  readonly userId: UserId;
}
export interface UnlikeProduct {
  readonly type: 'UnlikeProduct';
  readonly productId: ProductId;
  readonly userId: UserId;
}
export type LikeCommand = LikeProduct | UnlikeProduct;

/** Whether one user likes one product. */
export interface Like {
  readonly status: 'liked' | 'not-liked';
}

/** Asking for what is so already is no mistake and no event. */
export const likeDecider = {
  initialState: { status: 'not-liked' },

  decide: ({ type, productId, userId }, like) => {
    switch (type) {
      case 'LikeProduct':
        return like.status === 'liked'
          ? accept()
          : accept<LikeEvent>({ type: 'LikeCreated', productId, userId });
      case 'UnlikeProduct':
        return like.status === 'liked'
          ? accept<LikeEvent>({ type: 'LikeCanceled', productId, userId })
          : accept();
      default:
        return assertNever(type);
    }
  },

  evolve: (_like, event): Like => {
    switch (event.type) {
      case 'LikeCreated':
        return { status: 'liked' };
      case 'LikeCanceled':
        return { status: 'not-liked' };
      default:
        return assertNever(event);
    }
  },
} satisfies Decider<LikeCommand, Like, LikeEvent, never>;
