import type { RateLimitOptions } from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { callerOf } from './access-control.ts';
import { problem } from './problem.ts';
import { sendProblem } from './problem-responses.ts';

export interface RateLimits {
  readonly commandsPerMinute: number;
  readonly likesAndViewsPerMinute: number;
  readonly failedLoginsPerMinute: number;
}

const minuteMs = 60_000;
/** Callers remembered per bucket; the one longest silent is forgotten first. */
const callersMax = 20_000;

/** Counts a request and answers with the seconds to wait when it was one too many. */
export type Bucket = (request: FastifyRequest) => Promise<number | undefined>;

/** Undefined when there is no limit. */
export const createBucket = (
  server: FastifyInstance,
  { perMinute, keyOf }: { perMinute: number; keyOf: (request: FastifyRequest) => string },
): Bucket | undefined => {
  if (perMinute === 0) return undefined;
  const options: RateLimitOptions = {
    max: perMinute,
    timeWindow: minuteMs,
    keyGenerator: keyOf,
    cache: callersMax,
  };
  const count = server.createRateLimit(options);
  return async (request) => {
    const result = await count(request);
    return !result.isAllowed && result.isExceeded ? Math.max(1, result.ttlInSeconds) : undefined;
  };
};

/** Limits what one shopper can send to this process; the routes of one kind share a bucket. Operators are exempt. */
export const limitCommandRates = (server: FastifyInstance, limits: RateLimits): void => {
  const keyOf = (request: FastifyRequest) => callerOf(request).identity;
  const buckets = {
    commands: createBucket(server, { perMinute: limits.commandsPerMinute, keyOf }),
    'likes-and-views': createBucket(server, { perMinute: limits.likesAndViewsPerMinute, keyOf }),
  };

  server.addHook('onRequest', (request, reply, done) => {
    const limit = request.routeOptions.config.operation?.command?.limit;
    const bucket = limit && buckets[limit];
    if (!bucket || callerOf(request).role === 'operator') {
      done();
      return;
    }
    bucket(request).then((waitSeconds) => {
      if (waitSeconds === undefined) done();
      else sendProblem(reply, problem('rate-limited', {}, { 'retry-after': String(waitSeconds) }));
    }, done);
  });
};
