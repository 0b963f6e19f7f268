import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { Commands } from '../../commands/commands.ts';
import { productId as asProductId, userId as asUserId } from '../../domain/ids.ts';
import type { Queries } from '../../read-model/queries.ts';
import { problems } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';
import { contextOf } from '../request-context.ts';
import {
  CommandAnswer,
  ProductPath,
  RecordViewBody,
  RegisterProductBody,
  StatisticAnswer,
} from '../schemas.ts';

export interface ProductRouteOptions {
  readonly commands: Commands;
  readonly queries: Queries;
  readonly newProductId: () => string;
}

export const productRoutes: FastifyPluginAsyncTypebox<ProductRouteOptions> = async (server, options) => {
  const { commands, queries, newProductId } = options;

  server.post(
    '/v1/products',
    { schema: { body: RegisterProductBody, response: { 201: CommandAnswer } } },
    async (request, reply) => {
      const { productId = newProductId(), priceMinor, currency, ...facts } = request.body;
      const result = await commands.registerProduct(
        {
          type: 'RegisterProduct',
          productId: asProductId(productId),
          price: { amountMinor: priceMinor, currency },
          ...facts,
        },
        contextOf(request),
      );
      if (result.outcome === 'rejected')
        return sendProblem(reply, problems.productAlreadyRegistered(productId));
      return reply
        .code(201)
        .header('location', `/v1/products/${productId}`)
        .send({ productId, version: result.version });
    },
  );

  server.post(
    '/v1/products/:productId/views',
    {
      schema: {
        params: ProductPath,
        body: Type.Union([RecordViewBody, Type.Null()]),
        response: { 201: CommandAnswer },
      },
    },
    async (request, reply) => {
      const { productId } = request.params;
      const viewer = request.body?.userId;
      const result = await commands.recordProductView(
        {
          type: 'RecordProductView',
          productId: asProductId(productId),
          userId: viewer === undefined ? null : asUserId(viewer),
        },
        contextOf(request),
      );
      if (result.outcome === 'rejected') return sendProblem(reply, problems.productUnknown(productId));
      return reply.code(201).send({ productId, version: result.version });
    },
  );

  server.get(
    '/v1/products/:productId/statistic',
    { schema: { params: ProductPath, response: { 200: StatisticAnswer } } },
    async (request, reply) => {
      const statistic = await queries.getProductStatistic(request.params.productId);
      if (!statistic) {
        return sendProblem(
          reply,
          problems.statisticUnknown('It appears once the product is registered and projected'),
        );
      }
      return { ...statistic, updatedAt: statistic.updatedAt.toISOString() };
    },
  );
};
