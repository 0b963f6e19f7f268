import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { callerOf, mayActFor } from '../access-control.ts';
import type { ApiPorts } from '../api-ports.ts';
import { commandRequestOf, sendOutcome } from '../command-request.ts';
import type { CommandTraits, Operation } from '../operation.ts';
import { problem } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';
import { LikeAnswer, LikePath, NoBody, NoQuery } from '../schemas.ts';

const traits: CommandTraits = {
  limit: 'likes-and-views',
  ifMatch: 'optional',
  rejections: ['product-unknown', 'not-yours'],
};
const answerHeaders = { ETag: 'How often this user has changed its mind about this product' };

const likeProduct: Operation = {
  id: 'likeProduct',
  tag: 'Likes',
  summary: 'Like a product',
  description: 'Liking twice changes nothing.',
  access: 'shopper',
  command: traits,
  answerHeaders,
};

const unlikeProduct: Operation = {
  id: 'unlikeProduct',
  tag: 'Likes',
  summary: 'Like a product no longer',
  description: 'Where there was no like, nothing changes.',
  access: 'shopper',
  command: traits,
  answerHeaders,
};

const path = '/v1/products/:productId/likes/:userId';
const schema = { params: LikePath, querystring: NoQuery, body: NoBody, response: { 200: LikeAnswer } };

export const likeRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, ports) => {
  const { commands, newCorrelationId } = ports;

  server.put(path, { config: { operation: likeProduct }, schema }, async (request, reply) => {
    const { productId, userId } = request.params;
    if (!mayActFor(callerOf(request), userId)) return sendProblem(reply, problem('not-yours', {}));
    const outcome = await commands.likeProduct(
      { productId, userId },
      commandRequestOf(request, newCorrelationId),
    );
    return sendOutcome(reply, outcome, () => ({ status: 200 }));
  });

  server.delete(path, { config: { operation: unlikeProduct }, schema }, async (request, reply) => {
    const { productId, userId } = request.params;
    if (!mayActFor(callerOf(request), userId)) return sendProblem(reply, problem('not-yours', {}));
    const outcome = await commands.unlikeProduct(
      { productId, userId },
      commandRequestOf(request, newCorrelationId),
    );
    return sendOutcome(reply, outcome, () => ({ status: 200 }));
  });
};
