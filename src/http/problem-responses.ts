import type { FastifyBaseLogger, FastifyError, FastifyInstance, FastifyReply } from 'fastify';
import { VersionConflict } from '../journal/append-events.ts';
import { type Problem, problems } from './problem.ts';

export const sendProblem = (reply: FastifyReply, problem: Problem): FastifyReply =>
  reply.code(problem.status).type('application/problem+json').send(JSON.stringify(problem));

/** Replaces Fastify's own error bodies, which differ in shape and give away internals. */
export const answerWithProblems = (server: FastifyInstance): void => {
  server.setNotFoundHandler((request, reply) =>
    sendProblem(reply, problems.notFound(`${request.method} ${request.url.split('?')[0]}`)),
  );
  server.setErrorHandler<FastifyError>((error, request, reply) =>
    sendProblem(reply, problemFor(error, request.log)),
  );
};

const problemFor = (error: FastifyError, log: FastifyBaseLogger): Problem => {
  if (error instanceof VersionConflict) return problems.conflict();
  if (error.validation) return problems.invalidRequest(error.message);
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return problems.unsupportedMediaType();
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return problems.bodyTooLarge();
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
      return problems.malformedJson(error.message);
    default:
  }
  if (error instanceof SyntaxError) return problems.malformedJson(error.message);
  if (error.statusCode && error.statusCode < 500) return problems.refused(error.message);
  log.error({ err: error }, 'A request failed');
  return problems.internal();
};
