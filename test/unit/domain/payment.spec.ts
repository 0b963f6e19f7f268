import { orderId, paymentId, userId } from '../../../src/domain/ids.ts';
import { type PaymentCreated, paymentDecider } from '../../../src/domain/payment/payment.ts';
import { givenWith } from '../../support/given.ts';

const given = givenWith(paymentDecider);
const amount = { amountMinor: 1000, currency: 'EUR' };
const facts = {
  paymentId: paymentId('pay-1'),
  orderId: orderId('o-1'),
  userId: userId('u-1'),
  amount,
  method: 'card',
};
const created: PaymentCreated = { type: 'PaymentCreated', ...facts };
const create = { type: 'CreatePayment', ...facts, due: amount } as const;
const paid = { type: 'PaymentPaid', ...facts } as const;
const failed = { type: 'PaymentFailed', ...facts, reason: 'declined' } as const;

describe('payment', () => {
  it('is begun for exactly what is due', () => {
    given().when(create).thenAccepted(created);
    given()
      .when({ ...create, amount: { ...amount, amountMinor: 999 } })
      .thenRejected({ reason: 'payment-amount-differs', due: amount, offered: 999 });
    given()
      .when({ ...create, amount: { ...amount, currency: 'USD' } })
      .thenRejected({ reason: 'payment-amount-differs', due: amount, offered: 1000 });
  });

  it('is begun once', () => {
    given(created).when(create).thenRejected({ reason: 'payment-already-created' });
  });

  it('is paid or fails, one of them and once', () => {
    given(created).when({ type: 'ConfirmPayment' }).thenAccepted(paid);
    given(created).when({ type: 'FailPayment', reason: 'declined' }).thenAccepted(failed);
    given(created, paid).when({ type: 'ConfirmPayment' }).thenRejected({ reason: 'payment-already-paid' });
    given(created, paid)
      .when({ type: 'FailPayment', reason: 'late' })
      .thenRejected({ reason: 'payment-already-paid' });
    given(created, failed)
      .when({ type: 'ConfirmPayment' })
      .thenRejected({ reason: 'payment-already-failed' });
    given(created, failed)
      .when({ type: 'FailPayment', reason: 'x' })
      .thenRejected({ reason: 'payment-already-failed' });
  });

  it('must be begun before it ends', () => {
    given().when({ type: 'ConfirmPayment' }).thenRejected({ reason: 'payment-unknown' });
    given().when({ type: 'FailPayment', reason: 'x' }).thenRejected({ reason: 'payment-unknown' });
  });
});
