import { createHash } from 'node:crypto';
import apiReference from '@scalar/fastify-api-reference';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Operation } from '../operation.ts';
import { problem } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';
import { protectPages } from '../security-headers.ts';

const getDocument: Operation = {
  id: 'getOpenApiDocument',
  tag: 'Health',
  summary: 'This document',
  access: 'public',
};

/** The document and a page to read it. The page is served from here whole: it asks no other host for anything. */
export const serveDocument = async (server: FastifyInstance): Promise<void> => {
  server.get(
    '/openapi.json',
    {
      config: { operation: getDocument },
      schema: { response: { 200: Type.Object({}, { additionalProperties: true }) } },
    },
    async (_request, reply) => reply.type('application/json').send(documentText()),
  );
  let text: string | undefined;
  const documentText = (): string => {
    text ??= JSON.stringify(server.swagger());
    return text;
  };
  await server.register(docsPage);
};

const docsPage = async (server: FastifyInstance): Promise<void> => {
  await protectPages(server);
  // The page's plugin reads the host as a URL and would fail on one that is none.
  server.addHook('onRequest', (request, reply, done) => {
    if (URL.canParse(request.url, `${request.protocol}://${request.hostname}`)) done();
    else sendProblem(reply, problem('malformed-url', {}));
  });
  server.addHook('onSend', (_request, reply, payload, done) => {
    if (typeof payload === 'string' && String(reply.getHeader('content-type')).startsWith('text/html')) {
      reply.header('content-security-policy', pagePolicy(payload));
    }
    done(null, payload);
  });
  await server.register(apiReference, {
    routePrefix: '/docs',
    configuration: {
      url: '/openapi.json',
      pageTitle: 'Millrace API',
      withDefaultFonts: false,
      telemetry: false,
      hideClientButton: true,
      showDeveloperTools: 'never',
      agent: { disabled: true },
      mcp: { disabled: true },
    },
  });
};

/** The one inline script of the page is allowed by its hash; styles are made while the page runs. */
const pagePolicy = (html: string): string => {
  const hashes = [...html.matchAll(/<script[^>]*>([^<]+)<\/script>/g)].map(
    ([, script = '']) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`,
  );
  return [
    "default-src 'none'",
    `script-src 'self' ${hashes.join(' ')}`,
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
};
