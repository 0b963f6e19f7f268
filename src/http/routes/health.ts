import type { FastifyPluginAsync } from 'fastify';

/** A part of the process that can say whether it works: resolves, or rejects with the reason. */
export type HealthChecks = Readonly<Record<string, () => Promise<void>>>;

const checkTimeoutMs = 2000;

export const healthRoutes: FastifyPluginAsync<{ checks: HealthChecks }> = async (server, { checks }) => {
  server.get('/livez', async () => ({ status: 'ok' }));

  server.get('/readyz', async (_request, reply) => {
    const results = await Promise.all(Object.entries(checks).map(([name, check]) => runCheck(name, check)));
    const ready = results.every((result) => result.status === 'ok');
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ok' : 'failing', checks: results });
  });
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
