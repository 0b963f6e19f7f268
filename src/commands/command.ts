import type { UserId } from '../domain/ids.ts';
import type { OrderRejection } from '../domain/order/order.ts';
import type { PaymentRejection } from '../domain/payment/payment.ts';
import type { ProductRejection } from '../domain/product/product.ts';
import type { CommandContext } from '../journal/seal-event.ts';

/** What makes a repeated request recognisable: the caller's key within its scope, and what was asked with it. */
export interface IdempotencyClaim {
  /** Caller and route: the same key of another caller or at another path is another key. */
  readonly scope: string;
  readonly key: string;
  /** SHA-256 of the raw request. */
  readonly fingerprint: Buffer;
}

/** Everything about a request that is not its content. */
export interface CommandRequest {
  readonly context: CommandContext;
  readonly idempotency: IdempotencyClaim;
  /** The user whose things may be touched; undefined for an operator, who may touch everybody's. */
  readonly actingUser: UserId | undefined;
  /** From If-Match: the version the caller has seen of the aggregate it changes. */
  readonly expectedVersion: number | undefined;
}

/** Reasons that are about the request and not about one aggregate's rules. */
export type RequestRejection =
  | { readonly reason: 'not-yours' }
  | { readonly reason: 'version-differs'; readonly currentVersion: number }
  | { readonly reason: 'idempotency-key-in-flight' }
  | { readonly reason: 'idempotency-key-reused' };

export type Rejection = ProductRejection | OrderRejection | PaymentRejection | RequestRejection;

export type CommandOutcome<Answer> =
  | {
      readonly outcome: 'accepted';
      readonly answer: Answer;
      /** True when an earlier request with the same key did it, and this is what it was answered. */
      readonly replayed: boolean;
      /** Names its events, for queries that must show them. */
      readonly consistencyToken: string;
    }
  | { readonly outcome: 'rejected'; readonly rejection: Rejection };

export interface ProductAnswer {
  readonly productId: string;
  readonly version: number;
}
export interface StockAnswer extends ProductAnswer {
  readonly stock: number;
}
export interface LikeAnswer {
  readonly productId: string;
  readonly userId: string;
  readonly liked: boolean;
  /** 0 when nothing has ever happened between the two. */
  readonly version: number;
}
export interface OrderAnswer {
  readonly orderId: string;
  readonly status: 'created' | 'paid' | 'canceled';
  readonly totalMinor: number;
  readonly currency: string;
  readonly version: number;
}
export interface PaymentAnswer {
  readonly paymentId: string;
  readonly orderId: string;
  readonly status: 'created' | 'paid' | 'failed';
  readonly amountMinor: number;
  readonly currency: string;
  readonly version: number;
}
