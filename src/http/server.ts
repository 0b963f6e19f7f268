import { type FastifyBaseLogger, type FastifyInstance, fastify, LogController } from 'fastify';
import type { Logger } from 'pino';
import { type ApiOptions, api } from './api.ts';
import { handleEveryRequest } from './every-request.ts';
import { takeJsonBodies } from './json-bodies.ts';
import { type HttpObserver, observeRequests } from './observe-requests.ts';
import { serveDocument } from './openapi/docs-page.ts';
import { describeRoutes } from './openapi/document.ts';
import { answerClientErrors, answerErrorsWithProblems, answerFrameworkError } from './problem-responses.ts';
import { type HealthChecks, healthRoutes } from './routes/health.ts';
import { metricsRoutes, type Scrape } from './routes/metrics.ts';

export interface ServerOptions {
  readonly log: Logger;
  readonly bodyBytesMax: number;
  readonly requestTimeoutMs: number;
  readonly newRequestId: () => string;
  readonly healthChecks: HealthChecks;
  readonly scrape: Scrape;
  readonly observer: HttpObserver;
  /** Absent in processes that only relay or project: those answer for their health, with their figures, and nothing else. */
  readonly api?: ApiOptions;
}

/** Longer than any request line can be: the schema of the parameter says what is wrong with it. */
const paramLengthMax = 64 * 1024;

export const buildServer = (options: ServerOptions): FastifyInstance => {
  // Fastify's own information repeats what the ready line says.
  const loggerInstance: FastifyBaseLogger = options.log.child({ part: 'http' }, { level: 'warn' });
  const server = fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: options.bodyBytesMax,
    requestTimeout: options.requestTimeoutMs,
    connectionTimeout: options.requestTimeoutMs * 2,
    // Node looks only every 30 s by default, by when the connection is cut without an answer.
    http: { connectionsCheckingInterval: Math.ceil(options.requestTimeoutMs / 4) },
    forceCloseConnections: 'idle',
    // Answered by a hook instead, as a problem.
    return503OnClosing: false,
    routerOptions: { maxParamLength: paramLengthMax },
    genReqId: options.newRequestId,
    frameworkErrors: answerFrameworkError,
    clientErrorHandler: answerClientErrors(options.newRequestId),
    // Fastify would turn "5" into 5 and drop what it does not know; a client should hear of both.
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false } },
  });
  answerErrorsWithProblems(server);
  takeJsonBodies(server);
  describeRoutes(server);
  observeRequests(server, options.observer);
  handleEveryRequest(server);
  void server.register(healthRoutes, { checks: options.healthChecks });
  void server.register(metricsRoutes, { scrape: options.scrape });
  if (options.api) {
    void server.register(serveDocument);
    void server.register(api, options.api);
  }
  return server;
};
