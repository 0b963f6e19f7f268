import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Operation } from '../operation.ts';
import { LiveAnswer, ReadyAnswer } from '../schemas.ts';

/** A part of the process that can say whether it works: resolves, or rejects with the reason. */
export type HealthChecks = Readonly<Record<string, () => Promise<void>>>;

const checkTimeoutMs = 2000;

const live: Operation = {
  id: 'isAlive',
  tag: 'Health',
  summary: 'Whether the process answers at all',
  access: 'public',
};
const ready: Operation = {
  id: 'isReady',
  tag: 'Health',
  summary: 'Whether every part of the process works',
  access: 'public',
};

export const healthRoutes: FastifyPluginAsyncTypebox<{ checks: HealthChecks }> = async (
  server,
  { checks },
) => {
  server.get(
    '/livez',
    { config: { operation: live }, schema: { response: { 200: LiveAnswer } } },
    async () => ({
      status: 'ok' as const,
    }),
  );

  server.get(
    '/readyz',
    { config: { operation: ready }, schema: { response: { 200: ReadyAnswer, 503: ReadyAnswer } } },
    async (_request, reply) => {
      const results = await Promise.all(Object.entries(checks).map(([name, check]) => runCheck(name, check)));
      const allWork = results.every((result) => result.status === 'ok');
      return reply.code(allWork ? 200 : 503).send({ status: allWork ? 'ok' : 'failing', checks: results });
    },
  );
};

const runCheck = async (name: string, check: () => Promise<void>) => {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${checkTimeoutMs} ms`)), checkTimeoutMs);
  });
  try {
    await Promise.race([check(), timeout]);
    return { name, status: 'ok' as const };
  } catch (error) {
    return { name, status: 'failing' as const, reason: (error as Error).message };
  } finally {
    clearTimeout(timer);
  }
};
