import type { Rejection } from '../commands/command.ts';
import { type Problem, problem } from './problem.ts';

type Of<Reason extends Rejection['reason']> = Extract<Rejection, { readonly reason: Reason }>;

/** One entry for every reason there is: a new reason without one does not compile. */
const mapping: { readonly [Reason in Rejection['reason']]: (rejection: Of<Reason>) => Problem } = {
  'not-yours': () => problem('not-yours', {}),
  'version-differs': ({ currentVersion }) => problem('version-differs', { currentVersion }),
  'idempotency-key-in-flight': () => problem('idempotency-key-in-flight', {}),
  'idempotency-key-reused': () => problem('idempotency-key-reused', {}),

  'product-unknown': () => problem('product-unknown', {}),
  'product-already-registered': ({ productId }) => problem('product-already-registered', { productId }),
  'stock-insufficient': ({ productId, stock, wanted }) =>
    problem('stock-insufficient', { productId, stock, wanted }),
  'stock-too-large': ({ productId }) => problem('stock-too-large', { productId }),

  'order-unknown': () => problem('order-unknown', {}),
  'order-already-placed': () => problem('order-already-placed', {}),
  'order-empty': () => problem('order-empty', {}),
  'order-item-repeated': ({ productId }) => problem('order-item-repeated', { productId }),
  'order-currencies-differ': () => problem('order-currencies-differ', {}),
  'order-total-too-large': () => problem('order-total-too-large', {}),
  'order-already-paid': () => problem('order-already-paid', {}),
  'order-already-canceled': () => problem('order-already-canceled', {}),

  'payment-unknown': () => problem('payment-unknown', {}),
  'payment-already-created': () => problem('payment-already-created', {}),
  'payment-amount-differs': ({ due, offered }) => problem('payment-amount-differs', { due, offered }),
  'payment-already-paid': () => problem('payment-already-paid', {}),
  'payment-already-failed': () => problem('payment-already-failed', {}),
};

export const problemOf = <Reason extends Rejection['reason']>(rejection: Of<Reason>): Problem =>
  mapping[rejection.reason](rejection as never);
