import { createHash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { matchesAnyTag } from './header-values.ts';
import { isConditional } from './operation.ts';

/** May be kept by whoever asked, and by nobody else, and is asked for again each time: that is what the tag is for. */
const cachingHeaders = { 'cache-control': 'private, no-cache', vary: 'authorization' };

/**
 * Gives the answers of queries a tag, and answers 304 to who has that answer already. Routes that know a version set it as
 * the tag; of the others the answer itself is hashed.
 */
export const answerConditionally = (server: FastifyInstance): void => {
  server.addHook<string>('onSend', (request, reply, payload, done) => {
    const { operation } = request.routeOptions.config;
    if (!operation || !isConditional(operation) || reply.statusCode !== 200 || typeof payload !== 'string') {
      done(null, payload);
      return;
    }
    const tag = reply.getHeader('etag') ?? `"${hashOf(payload)}"`;
    reply.headers({ ...cachingHeaders, etag: tag });
    if (!matchesAnyTag(request.headers['if-none-match'], String(tag))) {
      done(null, payload);
      return;
    }
    reply.code(304).removeHeader('content-type').removeHeader('content-length');
    done(null, '');
  });
};

const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 27);
