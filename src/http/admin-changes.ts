import type { FastifyInstance } from 'fastify';
import { OperatorError } from '../operator-error.ts';
import { problem } from './problem.ts';
import { sendProblem } from './problem-responses.ts';

/** What taking a body brings along. No change by an operator needs an Idempotency-Key: done twice they come to the same. */
export const changeProblems = [
  'malformed-json',
  'body-too-large',
  'unsupported-media-type',
  'if-match-not-applicable',
] as const;

/** The answer to a change that does not go now, when it is one that an operator can do something about. */
export const refusalOf = (error: unknown) => {
  if (error instanceof OperatorError) return problem('not-possible-now', { detail: error.line });
  throw error;
};

/** A condition that nobody checks must not look as if it held. */
export const refuseIfMatch = (server: FastifyInstance): void => {
  server.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'POST' && request.headers['if-match'] !== undefined)
      sendProblem(reply, problem('if-match-not-applicable', {}));
    else done();
  });
};
