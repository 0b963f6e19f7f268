import { paymentId as asPaymentId } from '../domain/ids.ts';
import type { PaymentAnswer } from './command.ts';
import { type CommandPlan, rejected } from './command-plan.ts';
import { paymentAnswer } from './create-payment.ts';

/** The payment is paid and, in the same transaction, the order with it: neither without the other. */
export const confirmPayment = ({ paymentId }: { readonly paymentId: string }): CommandPlan<PaymentAnswer> => {
  const stream = { aggregateType: 'Payment', aggregateId: paymentId } as const;
  return {
    streams: [stream],
    moreStreams: (view) => {
      const payment = view.state('Payment', paymentId);
      return payment.status === 'created' ? [{ aggregateType: 'Order', aggregateId: payment.orderId }] : [];
    },
    target: stream,
    decide: (view) => {
      const payment = view.state('Payment', paymentId);
      if (payment.status === 'none') return rejected({ reason: 'payment-unknown' });
      const confirmed = view.decide('Payment', paymentId, { type: 'ConfirmPayment' });
      if (confirmed.outcome === 'rejected') return confirmed;
      const paid = view.decide('Order', payment.orderId, {
        type: 'PayOrder',
        paymentId: asPaymentId(paymentId),
      });
      if (paid.outcome === 'rejected') return paid;
      return {
        outcome: 'accepted',
        changes: [
          { stream, events: confirmed.events },
          { stream: { aggregateType: 'Order', aggregateId: payment.orderId }, events: paid.events },
        ],
        answer: (after) => paymentAnswer(after, paymentId),
      };
    },
  };
};
