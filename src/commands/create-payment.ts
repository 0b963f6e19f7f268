import { orderId as asOrderId, paymentId as asPaymentId, type UserId } from '../domain/ids.ts';
import type { PaymentAnswer } from './command.ts';
import { type CommandPlan, rejected, type StreamView } from './command-plan.ts';

export const createPayment = (input: {
  readonly paymentId: string;
  readonly orderId: string;
  readonly amountMinor: number;
  readonly method: string;
  readonly actingUser: UserId | undefined;
}): CommandPlan<PaymentAnswer> => {
  const { paymentId, orderId, amountMinor, method, actingUser } = input;
  const stream = { aggregateType: 'Payment', aggregateId: paymentId } as const;
  const orderStream = { aggregateType: 'Order', aggregateId: orderId } as const;
  return {
    streams: [{ ...stream, isNew: true }, orderStream],
    target: orderStream,
    decide: (view) => {
      const order = view.state('Order', orderId);
      if (order.status === 'none') return rejected({ reason: 'order-unknown' });
      if (actingUser !== undefined && order.userId !== actingUser) return rejected({ reason: 'not-yours' });
      if (order.status !== 'created') return rejected({ reason: `order-already-${order.status}` });
      const decision = view.decide('Payment', paymentId, {
        type: 'CreatePayment',
        paymentId: asPaymentId(paymentId),
        orderId: asOrderId(orderId),
        userId: order.userId,
        amount: { amountMinor, currency: order.total.currency },
        method,
        due: order.total,
      });
      if (decision.outcome === 'rejected') return decision;
      return {
        outcome: 'accepted',
        changes: [{ stream, events: decision.events }],
        answer: (after) => paymentAnswer(after, paymentId),
      };
    },
  };
};

export const paymentAnswer = (after: StreamView, paymentId: string): PaymentAnswer => {
  const payment = after.state('Payment', paymentId);
  if (payment.status === 'none') throw new Error(`Payment ${paymentId} was accepted and is not there`);
  return {
    paymentId,
    orderId: payment.orderId,
    status: payment.status,
    amountMinor: payment.amount.amountMinor,
    currency: payment.amount.currency,
    version: after.version('Payment', paymentId),
  };
};
