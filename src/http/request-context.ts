import type { FastifyRequest } from 'fastify';
import type { CommandContext } from '../journal/seal-event.ts';

/** W3C trace context, version 00; anything else is not passed on. */
const traceparentPattern = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

export const contextOf = (request: FastifyRequest): CommandContext => {
  const traceparent = request.headers.traceparent;
  return {
    requestId: request.id,
    correlationId: request.id,
    traceparent: typeof traceparent === 'string' && traceparentPattern.test(traceparent) ? traceparent : null,
  };
};
