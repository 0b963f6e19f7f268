import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { Operation } from '../operation.ts';

/** The figures of the process as text, in whatever format its content type says. */
export type Scrape = () => Promise<{ readonly contentType: string; readonly text: string }>;

const getMetrics: Operation = {
  id: 'getMetrics',
  tag: 'Health',
  summary: 'Figures of this process for Prometheus',
  access: 'public',
};

const answer = { content: { 'text/plain': { schema: Type.String() } } };

export const metricsRoutes: FastifyPluginAsyncTypebox<{ scrape: Scrape }> = async (server, { scrape }) => {
  server.get(
    '/metrics',
    { config: { operation: getMetrics }, schema: { response: { 200: answer } } },
    async (_request, reply) => {
      const { contentType, text } = await scrape();
      return reply.type(contentType).send(text);
    },
  );
};
