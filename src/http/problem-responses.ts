import { maxHeaderSize } from 'node:http';
import type { Socket } from 'node:net';
import type { ConnectionError, FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AuthenticationUnavailable } from '../auth/authenticator.ts';
import { VersionConflict } from '../journal/append-events.ts';
import { type Problem, problem } from './problem.ts';
import { securityHeaders } from './security-headers.ts';
import { isUnavailable } from './unavailable.ts';
import { problemOfValidation } from './validation-problems.ts';

const mediaType = 'application/problem+json';

export const sendProblem = (reply: FastifyReply, { body, headers }: Problem): FastifyReply =>
  reply.code(body.status).headers(headers).type(mediaType).send(JSON.stringify(body));

/** Replaces Fastify's own error bodies, which differ in shape and give away internals. */
export const answerErrorsWithProblems = (server: FastifyInstance): void => {
  server.setErrorHandler<FastifyError>((error, request, reply) =>
    sendProblem(reply, problemOfError(error, request)),
  );
};

/** For URLs that cannot be routed: no hook has run, so what every answer carries is set here. */
export const answerFrameworkError = (
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply =>
  sendProblem(
    reply.headers(securityHeaders).header('x-request-id', request.id),
    error.code === 'FST_ERR_MAX_PARAM_LENGTH' ? problem('url-too-long', {}) : problem('malformed-url', {}),
  );

const problemOfError = (error: FastifyError, request: FastifyRequest): Problem => {
  if (error instanceof VersionConflict) return problem('conflict', {});
  if (error.validation) return problemOfValidation(error.validation, error.validationContext);
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return problem('unsupported-media-type', {});
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return problem('body-too-large', {
        detail: `At most ${request.routeOptions.bodyLimit} bytes are taken`,
      });
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return problem('malformed-http', { detail: 'The body is not as long as Content-Length says' });
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_BODY':
      return problem('malformed-json', {});
    default:
  }
  if (error instanceof SyntaxError && error.statusCode === 400) {
    return problem('malformed-json', { detail: error.message });
  }
  if (error instanceof AuthenticationUnavailable || isUnavailable(error)) {
    request.log.warn({ err: error, requestId: request.id }, 'A request found a part it needs out of reach');
    return problem('unavailable', {});
  }
  request.log.error({ err: error, requestId: request.id }, 'A request failed');
  return problem('internal', {});
};

/** Answers on the socket itself: what came is no request that Fastify would ever see. */
export const answerClientErrors =
  (newRequestId: () => string) =>
  (error: ConnectionError, socket: Socket): void => {
    if (error.code === 'ECONNRESET' || socket.destroyed) return;
    if (socket.writable) socket.end(rawResponse(problemOfConnection(error), newRequestId()));
    else socket.destroy(error);
  };

const problemOfConnection = ({ code }: ConnectionError): Problem => {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return problem('request-timeout', {});
    case 'HPE_HEADER_OVERFLOW':
      return problem('headers-too-large', { detail: `At most ${maxHeaderSize} bytes are taken` });
    default:
      return problem('malformed-http', {});
  }
};

const statusTexts: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  408: 'Request Timeout',
  431: 'Request Header Fields Too Large',
};

const rawResponse = ({ body }: Problem, requestId: string): string => {
  const text = JSON.stringify(body);
  return [
    `HTTP/1.1 ${body.status} ${statusTexts[body.status]}`,
    `Content-Type: ${mediaType}`,
    `Content-Length: ${Buffer.byteLength(text)}`,
    `X-Request-Id: ${requestId}`,
    'Connection: close',
    '',
    text,
  ].join('\r\n');
};
