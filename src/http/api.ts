import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance } from 'fastify';
import type { Authenticate } from '../auth/authenticator.ts';
import { controlAccess } from './access-control.ts';
import type { ApiPorts } from './api-ports.ts';
import { readCommandHeaders } from './command-request.ts';
import { answerConditionally } from './conditional-answers.ts';
import { readConsistently } from './consistent-reads.ts';
import { createFailedLogins } from './failed-logins.ts';
import { limitCommandRates, type RateLimits } from './rate-limits.ts';
import { adminDeadLetterRoutes } from './routes/admin-dead-letters.ts';
import { adminOutboxRoutes } from './routes/admin-outbox.ts';
import { adminProjectionRoutes } from './routes/admin-projections.ts';
import { adminRelayRoutes } from './routes/admin-relay.ts';
import { eventRoutes } from './routes/events.ts';
import { likeRoutes } from './routes/likes.ts';
import { orderQueryRoutes } from './routes/order-queries.ts';
import { orderRoutes } from './routes/orders.ts';
import { paymentRoutes } from './routes/payments.ts';
import { productQueryRoutes } from './routes/product-queries.ts';
import { productRoutes } from './routes/products.ts';

export interface ApiOptions extends ApiPorts {
  readonly authenticate: Authenticate;
  readonly rateLimits: RateLimits;
  readonly requireIfMatch: boolean;
}

/**
 * Everything under /v1 and /admin, and the stream of events. The hooks run in this order: who is it, may it, is it too much,
 * is it a proper command, does it have to wait.
 */
export const api = async (server: FastifyInstance, options: ApiOptions): Promise<void> => {
  const { authenticate, rateLimits, requireIfMatch, ...ports } = options;
  await server.register(rateLimit, { global: false });
  const failedLogins = createFailedLogins(server, rateLimits.failedLoginsPerMinute);
  controlAccess(server, { authenticate, failedLogins });
  limitCommandRates(server, rateLimits);
  readCommandHeaders(server, { requireIfMatch });
  readConsistently(server, ports.consistency);
  answerConditionally(server);
  for (const routes of [
    productRoutes,
    productQueryRoutes,
    likeRoutes,
    orderRoutes,
    orderQueryRoutes,
    paymentRoutes,
    eventRoutes,
    adminOutboxRoutes,
    adminRelayRoutes,
    adminProjectionRoutes,
    adminDeadLetterRoutes,
  ]) {
    await server.register(routes, ports);
  }
};
