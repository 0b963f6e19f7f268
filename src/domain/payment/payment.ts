import { assertNever } from '../assert-never.ts';
import { accept, type Decider, type Decision, reject } from '../decider.ts';
import type { OrderId, PaymentId, UserId } from '../ids.ts';
import type { Money } from '../money.ts';

interface PaymentFacts {
  readonly paymentId: PaymentId;
  readonly orderId: OrderId;
  readonly userId: UserId;
  readonly amount: Money;
  readonly method: string;
}
export interface PaymentCreated extends PaymentFacts {
  readonly type: 'PaymentCreated';
}
export interface PaymentPaid extends PaymentFacts {
  readonly type: 'PaymentPaid';
}
export interface PaymentFailed extends PaymentFacts {
  readonly type: 'PaymentFailed';
  readonly reason: string;
}
export type PaymentEvent = PaymentCreated | PaymentPaid | PaymentFailed;

/** What the order expects comes with the command: a payment that does not balance is not even begun. */
export interface CreatePayment extends PaymentFacts {
  readonly type: 'CreatePayment';
  readonly due: Money;
}
export interface ConfirmPayment {
  readonly type: 'ConfirmPayment';
}
export interface FailPayment {
  readonly type: 'FailPayment';
  readonly reason: string;
}
export type PaymentCommand = CreatePayment | ConfirmPayment | FailPayment;

export type Payment =
  | { readonly status: 'none' }
  | ({ readonly status: 'created' | 'paid' | 'failed' } & PaymentFacts);

export type PaymentRejection =
  | { readonly reason: 'payment-already-created' }
  | { readonly reason: 'payment-unknown' }
  | { readonly reason: 'payment-amount-differs'; readonly due: Money; readonly offered: number }
  | { readonly reason: 'payment-already-paid' }
  | { readonly reason: 'payment-already-failed' };

type PaymentDecision = Decision<PaymentEvent, PaymentRejection>;

export const paymentDecider = {
  initialState: { status: 'none' },

  decide: (command, payment): PaymentDecision => {
    switch (command.type) {
      case 'CreatePayment':
        return payment.status === 'none' ? create(command) : reject({ reason: 'payment-already-created' });
      case 'ConfirmPayment':
        return settle(payment, (facts) => ({ type: 'PaymentPaid', ...facts }));
      case 'FailPayment':
        return settle(payment, (facts) => ({ type: 'PaymentFailed', ...facts, reason: command.reason }));
      default:
        return assertNever(command);
    }
  },

  evolve: (_payment, event): Payment => {
    const { paymentId, orderId, userId, amount, method } = event;
    const facts = { paymentId, orderId, userId, amount, method };
    switch (event.type) {
      case 'PaymentCreated':
        return { status: 'created', ...facts };
      case 'PaymentPaid':
        return { status: 'paid', ...facts };
      case 'PaymentFailed':
        return { status: 'failed', ...facts };
      default:
        return assertNever(event);
    }
  },
} satisfies Decider<PaymentCommand, Payment, PaymentEvent, PaymentRejection>;

const create = ({ type: _, due, ...facts }: CreatePayment): PaymentDecision => {
  const balances = facts.amount.amountMinor === due.amountMinor && facts.amount.currency === due.currency;
  return balances
    ? accept({ type: 'PaymentCreated', ...facts })
    : reject({ reason: 'payment-amount-differs', due, offered: facts.amount.amountMinor });
};

/** A payment is paid or failed, one of them and once. */
const settle = (payment: Payment, toEvent: (facts: PaymentFacts) => PaymentEvent): PaymentDecision => {
  if (payment.status === 'none') return reject({ reason: 'payment-unknown' });
  const { status, ...facts } = payment;
  switch (status) {
    case 'created':
      return accept(toEvent(facts));
    case 'paid':
      return reject({ reason: 'payment-already-paid' });
    case 'failed':
      return reject({ reason: 'payment-already-failed' });
    default:
      return assertNever(status);
  }
};
