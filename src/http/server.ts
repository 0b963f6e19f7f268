import { createServer } from 'node:net';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { type FastifyInstance, fastify, LogController } from 'fastify';
import type { Logger } from 'pino';
import { OperatorError } from '../operator-error.ts';
import { answerWithProblems } from './problem-responses.ts';
import { type HealthChecks, healthRoutes } from './routes/health.ts';
import { type ProductRouteOptions, productRoutes } from './routes/products.ts';

export interface ServerOptions {
  readonly log: Logger;
  readonly bodyBytesMax: number;
  readonly requestTimeoutMs: number;
  readonly newRequestId: () => string;
  readonly healthChecks: HealthChecks;
  /** Absent in processes that only relay or project: those answer for their health and nothing else. */
  readonly api?: ProductRouteOptions;
}

const idempotencyKeyPattern = /^"?([\x21\x23-\x7e]{1,255})"?$/;

export const buildServer = (options: ServerOptions): FastifyInstance => {
  const server = fastify({
    // Fastify's own information repeats what the ready line says.
    loggerInstance: options.log.child({ part: 'http' }, { level: 'warn' }),
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: options.bodyBytesMax,
    requestTimeout: options.requestTimeoutMs,
    connectionTimeout: options.requestTimeoutMs * 2,
    forceCloseConnections: 'idle',
    genReqId: (request) => {
      const given = request.headers['idempotency-key'];
      return (typeof given === 'string' && idempotencyKeyPattern.exec(given)?.[1]) || options.newRequestId();
    },
    // Fastify would turn "5" into 5 and drop what it does not know; a client should hear of both.
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false } },
  }).withTypeProvider<TypeBoxTypeProvider>();

  answerWithProblems(server as unknown as FastifyInstance);
  takeJsonBodies(server as unknown as FastifyInstance);
  void server.register(healthRoutes, { checks: options.healthChecks });
  if (options.api) void server.register(productRoutes, options.api);
  return server as unknown as FastifyInstance;
};

/** JSON and nothing else; or no body, where a command needs none: Fastify refuses an empty one that says it is JSON. */
const takeJsonBodies = (server: FastifyInstance): void => {
  server.removeContentTypeParser('text/plain');
  const parseJson = server.getDefaultJsonParser('error', 'error');
  server.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') done(null, null);
    else parseJson(request, body, done);
  });
  server.addHook('preValidation', async (request) => {
    request.body ??= null;
  });
};

/** Listens and answers with the URL. */
export const listen = async (
  server: FastifyInstance,
  address: { host: string; port: number },
): Promise<string> => {
  try {
    return await server.listen({ ...address });
  } catch (cause) {
    throw portError(address, cause as NodeJS.ErrnoException);
  }
};

/** Asked before anything is started: a port in use is the operator's to decide, and better known before than after. */
export const requireFreePort = ({ host, port }: { host: string; port: number }): Promise<void> =>
  new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', (cause) => reject(portError({ host, port }, cause)));
    probe.listen({ host, port }, () => probe.close(() => resolve()));
  });

const portError = (address: { host: string; port: number }, cause: NodeJS.ErrnoException): Error => {
  if (cause.syscall === undefined) return cause;
  const reason = cause.code === 'EADDRINUSE' ? 'is in use' : `cannot be listened on (${cause.message})`;
  return new OperatorError(`Port ${address.port} on ${address.host} ${reason}`, {
    remedy: 'Stop what is using it, or choose another with PORT (0 takes any free one)',
    cause,
  });
};
