import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { callerOf, mayActFor } from '../access-control.ts';
import type { ApiPorts } from '../api-ports.ts';
import { commandRequestOf, sendOutcome } from '../command-request.ts';
import type { Operation } from '../operation.ts';
import { problem } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';
import {
  AdjustStockBody,
  NoQuery,
  ProductAnswer,
  ProductPath,
  RecordViewBody,
  RegisterProductBody,
  StockAnswer,
} from '../schemas.ts';

const registerProduct: Operation = {
  id: 'registerProduct',
  tag: 'Products',
  summary: 'Register a product',
  description: 'Without a productId one is chosen.',
  access: 'operator',
  command: { limit: 'commands', ifMatch: 'not-applicable', rejections: ['product-already-registered'] },
  answerHeaders: { ETag: 'Its version', Location: 'Where it is' },
};

const adjustStock: Operation = {
  id: 'adjustStock',
  tag: 'Products',
  summary: 'Count pieces in or out',
  access: 'operator',
  command: {
    limit: 'commands',
    ifMatch: 'transition',
    rejections: ['product-unknown', 'stock-insufficient', 'stock-too-large'],
  },
  answerHeaders: { ETag: 'The version of the product' },
};

const recordView: Operation = {
  id: 'recordProductView',
  tag: 'Products',
  summary: 'Tell that somebody looked at a product',
  access: 'shopper',
  command: {
    limit: 'likes-and-views',
    ifMatch: 'not-applicable',
    rejections: ['product-unknown', 'not-yours'],
  },
};

export const productRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, ports) => {
  const { commands, newCorrelationId } = ports;

  server.post(
    '/v1/products',
    {
      config: { operation: registerProduct },
      schema: { querystring: NoQuery, body: RegisterProductBody, response: { 201: ProductAnswer } },
    },
    async (request, reply) => {
      const { productId, name, priceMinor, currency, stock } = request.body;
      const outcome = await commands.registerProduct(
        { productId, name, priceMinor, currency, stock },
        commandRequestOf(request, newCorrelationId),
      );
      return sendOutcome(reply, outcome, (answer) => ({
        status: 201,
        location: `/v1/products/${answer.productId}`,
      }));
    },
  );

  server.post(
    '/v1/products/:productId/stock-adjustments',
    {
      config: { operation: adjustStock },
      schema: {
        params: ProductPath,
        querystring: NoQuery,
        body: AdjustStockBody,
        response: { 200: StockAnswer },
      },
    },
    async (request, reply) => {
      const { delta, reason } = request.body;
      const outcome = await commands.adjustStock(
        { productId: request.params.productId, delta, reason },
        commandRequestOf(request, newCorrelationId),
      );
      return sendOutcome(reply, outcome, () => ({ status: 200 }));
    },
  );

  server.post(
    '/v1/products/:productId/views',
    {
      config: { operation: recordView },
      schema: {
        params: ProductPath,
        querystring: NoQuery,
        body: RecordViewBody,
        response: { 201: ProductAnswer },
      },
    },
    async (request, reply) => {
      const userId = request.body?.userId;
      if (!mayActFor(callerOf(request), userId)) return sendProblem(reply, problem('not-yours', {}));
      const outcome = await commands.recordProductView(
        { productId: request.params.productId, userId },
        commandRequestOf(request, newCorrelationId),
      );
      return sendOutcome(reply, outcome, () => ({ status: 201, etag: false }));
    },
  );
};
