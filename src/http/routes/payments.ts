import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { ApiPorts } from '../api-ports.ts';
import { commandRequestOf, sendOutcome } from '../command-request.ts';
import type { Operation } from '../operation.ts';
import { FailPaymentBody, NoBody, NoQuery, PaymentAnswer, PaymentPath } from '../schemas.ts';

const confirmPayment: Operation = {
  id: 'confirmPayment',
  tag: 'Payments',
  summary: 'Tell that a payment has arrived',
  description: 'Marks its order as paid.',
  access: 'operator',
  command: {
    limit: 'commands',
    ifMatch: 'transition',
    rejections: [
      'payment-unknown',
      'payment-already-paid',
      'payment-already-failed',
      'order-unknown',
      'order-already-paid',
      'order-already-canceled',
    ],
  },
  answerHeaders: { ETag: 'The version of the payment' },
};

const failPayment: Operation = {
  id: 'failPayment',
  tag: 'Payments',
  summary: 'Tell that a payment has failed',
  access: 'operator',
  command: {
    limit: 'commands',
    ifMatch: 'transition',
    rejections: ['payment-unknown', 'payment-already-paid', 'payment-already-failed'],
  },
  answerHeaders: { ETag: 'The version of the payment' },
};

const unknownReason = 'no reason given';

export const paymentRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, ports) => {
  const { commands, newCorrelationId } = ports;

  server.post(
    '/v1/payments/:paymentId/confirm',
    {
      config: { operation: confirmPayment },
      schema: { params: PaymentPath, querystring: NoQuery, body: NoBody, response: { 200: PaymentAnswer } },
    },
    async (request, reply) => {
      const { paymentId } = request.params;
      const outcome = await commands.confirmPayment(
        { paymentId },
        commandRequestOf(request, newCorrelationId),
      );
      return sendOutcome(reply, outcome, () => ({ status: 200 }));
    },
  );

  server.post(
    '/v1/payments/:paymentId/fail',
    {
      config: { operation: failPayment },
      schema: {
        params: PaymentPath,
        querystring: NoQuery,
        body: FailPaymentBody,
        response: { 200: PaymentAnswer },
      },
    },
    async (request, reply) => {
      const { paymentId } = request.params;
      const outcome = await commands.failPayment(
        { paymentId, reason: request.body?.reason ?? unknownReason },
        commandRequestOf(request, newCorrelationId),
      );
      return sendOutcome(reply, outcome, () => ({ status: 200 }));
    },
  );
};
