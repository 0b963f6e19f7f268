import { isUtf8 } from 'node:buffer';
import type { FastifyInstance } from 'fastify';

declare module 'fastify' {
  interface FastifyRequest {
    /** The body as it came, for the fingerprint of the request; null without one. */
    rawBody: Buffer | null;
  }
}

class NotUtf8 extends SyntaxError {
  readonly statusCode = 400;
}

/** JSON and nothing else; or no body, where a command needs none: Fastify refuses an empty one that says it is JSON. */
export const takeJsonBodies = (server: FastifyInstance): void => {
  server.decorateRequest('rawBody', null);
  server.removeContentTypeParser('text/plain');
  server.removeContentTypeParser('application/json');
  const parseJson = server.getDefaultJsonParser('error', 'error');
  server.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    request.rawBody = body;
    if (body.length === 0) done(null, null);
    // Broken characters would silently become others.
    else if (!isUtf8(body)) done(new NotUtf8('The body is not UTF-8'));
    else parseJson(request, body.toString('utf8'), done);
  });
  server.addHook('preValidation', (request, _reply, done) => {
    request.body ??= null;
    done();
  });
};
