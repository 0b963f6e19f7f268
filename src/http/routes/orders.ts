import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { callerOf, mayActFor } from '../access-control.ts';
import type { ApiPorts } from '../api-ports.ts';
import { commandRequestOf, sendOutcome } from '../command-request.ts';
import type { Operation } from '../operation.ts';
import { problem } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';
import {
  CreatePaymentBody,
  NoBody,
  NoQuery,
  OrderAnswer,
  OrderPath,
  PaymentAnswer,
  PlaceOrderBody,
} from '../schemas.ts';

const placeOrder: Operation = {
  id: 'placeOrder',
  tag: 'Orders',
  summary: 'Place an order',
  description: 'Reserves every item, or none when one is short.',
  access: 'shopper',
  command: {
    limit: 'commands',
    ifMatch: 'not-applicable',
    rejections: [
      'not-yours',
      'product-unknown',
      'stock-insufficient',
      'order-empty',
      'order-item-repeated',
      'order-currencies-differ',
      'order-total-too-large',
    ],
  },
  answerHeaders: { ETag: 'Its version', Location: 'Where it is' },
};

const cancelOrder: Operation = {
  id: 'cancelOrder',
  tag: 'Orders',
  summary: 'Cancel an order that is not paid',
  description: 'Gives back what it had reserved.',
  access: 'shopper',
  command: {
    limit: 'commands',
    ifMatch: 'transition',
    rejections: [
      'not-yours',
      'order-unknown',
      'order-already-paid',
      'order-already-canceled',
      'stock-too-large',
    ],
  },
  answerHeaders: { ETag: 'Its version' },
};

const createPayment: Operation = {
  id: 'createPayment',
  tag: 'Payments',
  summary: 'Begin to pay an order',
  description: 'The amount must be what the order comes to.',
  access: 'shopper',
  command: {
    limit: 'commands',
    ifMatch: 'not-applicable',
    rejections: [
      'not-yours',
      'order-unknown',
      'order-already-paid',
      'order-already-canceled',
      'payment-already-created',
      'payment-amount-differs',
    ],
  },
  answerHeaders: { ETag: 'The version of the payment' },
};

export const orderRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, ports) => {
  const { commands, newCorrelationId } = ports;

  server.post(
    '/v1/orders',
    {
      config: { operation: placeOrder },
      schema: { querystring: NoQuery, body: PlaceOrderBody, response: { 201: OrderAnswer } },
    },
    async (request, reply) => {
      const { userId, items } = request.body;
      if (!mayActFor(callerOf(request), userId)) return sendProblem(reply, problem('not-yours', {}));
      const outcome = await commands.placeOrder(
        { userId, items },
        commandRequestOf(request, newCorrelationId),
      );
      return sendOutcome(reply, outcome, ({ orderId }) => ({
        status: 201,
        location: `/v1/orders/${orderId}`,
      }));
    },
  );

  server.post(
    '/v1/orders/:orderId/cancel',
    {
      config: { operation: cancelOrder },
      schema: { params: OrderPath, querystring: NoQuery, body: NoBody, response: { 200: OrderAnswer } },
    },
    async (request, reply) => {
      const { orderId } = request.params;
      const outcome = await commands.cancelOrder({ orderId }, commandRequestOf(request, newCorrelationId));
      return sendOutcome(reply, outcome, () => ({ status: 200 }));
    },
  );

  server.post(
    '/v1/orders/:orderId/payments',
    {
      config: { operation: createPayment },
      schema: {
        params: OrderPath,
        querystring: NoQuery,
        body: CreatePaymentBody,
        response: { 201: PaymentAnswer },
      },
    },
    async (request, reply) => {
      const { amountMinor, method } = request.body;
      const outcome = await commands.createPayment(
        { orderId: request.params.orderId, amountMinor, method },
        commandRequestOf(request, newCorrelationId),
      );
      return sendOutcome(reply, outcome, () => ({ status: 201 }));
    },
  );
};
