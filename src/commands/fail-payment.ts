import type { PaymentAnswer } from './command.ts';
import type { CommandPlan } from './command-plan.ts';
import { paymentAnswer } from './create-payment.ts';

export const failPayment = (input: {
  readonly paymentId: string;
  readonly reason: string;
}): CommandPlan<PaymentAnswer> => {
  const { paymentId, reason } = input;
  const stream = { aggregateType: 'Payment', aggregateId: paymentId } as const;
  return {
    streams: [stream],
    target: stream,
    decide: (view) => {
      const decision = view.decide('Payment', paymentId, { type: 'FailPayment', reason });
      if (decision.outcome === 'rejected') return decision;
      return {
        outcome: 'accepted',
        changes: [{ stream, events: decision.events }],
        answer: (after) => paymentAnswer(after, paymentId),
      };
    },
  };
};
