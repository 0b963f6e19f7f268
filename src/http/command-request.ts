import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { CommandOutcome, CommandRequest } from '../commands/command.ts';
import { userId } from '../domain/ids.ts';
import { callerOf } from './access-control.ts';
import {
  parseCorrelationId,
  parseIdempotencyKey,
  parseTraceparent,
  parseVersionTag,
  versionTag,
} from './header-values.ts';
import type { CommandTraits } from './operation.ts';
import { type Problem, problem } from './problem.ts';
import { sendProblem } from './problem-responses.ts';
import { problemOf } from './rejection-problems.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** What the headers of a command say; null for everything else. */
    commandHeaders: CommandHeaders | null;
  }
}

interface CommandHeaders {
  readonly idempotencyKey: string;
  readonly expectedVersion: number | undefined;
}

/** Reads the headers of commands before their bodies: a command without a key is not worth parsing. */
export const readCommandHeaders = (server: FastifyInstance, options: { requireIfMatch: boolean }): void => {
  server.decorateRequest('commandHeaders', null);
  server.addHook('onRequest', (request, reply, done) => {
    const traits = request.routeOptions.config.operation?.command;
    if (!traits) {
      done();
      return;
    }
    const read = headersOf(request, traits, options.requireIfMatch);
    if ('body' in read) {
      sendProblem(reply, read);
      return;
    }
    request.commandHeaders = read;
    done();
  });
};

const headersOf = (
  { headers }: FastifyRequest,
  { ifMatch }: CommandTraits,
  requireIfMatch: boolean,
): CommandHeaders | Problem => {
  if (headers['idempotency-key'] === undefined) return problem('idempotency-key-missing', {});
  const idempotencyKey = parseIdempotencyKey(headers['idempotency-key']);
  if (idempotencyKey === undefined) return problem('idempotency-key-invalid', {});

  const given = headers['if-match'];
  if (given === undefined) {
    return requireIfMatch && ifMatch === 'transition'
      ? problem('if-match-required', {})
      : { idempotencyKey, expectedVersion: undefined };
  }
  // A condition that nobody checks must not look as if it held.
  if (ifMatch === 'not-applicable') return problem('if-match-not-applicable', {});
  const expectedVersion = parseVersionTag(given);
  return expectedVersion === undefined
    ? problem('if-match-invalid', {})
    : { idempotencyKey, expectedVersion };
};

/** Everything a command needs to know about the request besides its content. */
export const commandRequestOf = (request: FastifyRequest, newCorrelationId: () => string): CommandRequest => {
  const { commandHeaders, headers, method, routeOptions } = request;
  if (!commandHeaders) throw new Error('A route that is no command asked for one');
  const { idempotencyKey, expectedVersion } = commandHeaders;
  const caller = callerOf(request);
  return {
    context: {
      requestId: idempotencyKey,
      correlationId: parseCorrelationId(headers['x-correlation-id']) ?? newCorrelationId(),
      traceparent: parseTraceparent(headers.traceparent),
    },
    idempotency: {
      scope: `${caller.identity} ${method} ${routeOptions.url}`,
      key: idempotencyKey,
      fingerprint: fingerprintOf(request),
    },
    actingUser: caller.role === 'shopper' ? userId(caller.userId) : undefined,
    expectedVersion,
  };
};

/** Over the bytes as they came: two bodies that mean the same are still two requests. */
const fingerprintOf = ({ method, url, rawBody }: FastifyRequest): Buffer => {
  const hash = createHash('sha256').update(`${method}\n${url}\n`);
  return (rawBody ? hash.update(rawBody) : hash).digest();
};

interface GoodAnswer {
  readonly status: 200 | 201;
  /** Views have no version that anybody could ask for again. */
  readonly etag?: false;
  readonly location?: string;
}

/** The answer of a command, or the problem that its rejection is. */
export const sendOutcome = <Answer extends { readonly version: number }>(
  reply: FastifyReply,
  outcome: CommandOutcome<Answer>,
  describe: (answer: Answer) => GoodAnswer,
): FastifyReply => {
  if (outcome.outcome === 'rejected') return sendProblem(reply, problemOf(outcome.rejection));
  const { answer, replayed, consistencyToken } = outcome;
  const { status, etag, location } = describe(answer);
  if (etag !== false) reply.header('etag', versionTag(answer.version));
  if (location !== undefined) reply.header('location', location);
  reply.header('consistency-token', consistencyToken);
  if (replayed) reply.header('idempotent-replayed', 'true');
  return reply.code(status).send(answer);
};
