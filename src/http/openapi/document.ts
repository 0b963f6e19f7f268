import swagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { type Operation, tags } from '../operation.ts';
import { type HeaderParameter, headerParameters } from './header-parameters.ts';
import { documentOperation, type OperationObject } from './operation-object.ts';
import { problemListText, problemSchemas } from './problem-schemas.ts';

const description = `Commands decide events, the events are the truth, and every number is a projection of them.

Every command carries an \`Idempotency-Key\`: sent again, it gets its first answer and does nothing a second time.
Answers carry the version of what they are about, also as \`ETag\`; a command with \`If-Match\` happens only while that version is current.
Queries answer from read models, with an \`ETag\`: asked again with it as \`If-None-Match\`, they say 304 when nothing changed.
They follow commands within milliseconds, not at once: a query that must show what a command did brings the \`Consistency-Token\` of its answer, and waits for it.
Every answer carries \`X-Request-Id\`. Nothing in a request is converted or ignored: what is not known is refused.

## Problems
Errors are \`application/problem+json\` (RFC 9457), told apart by \`type\`.

${problemListText}`;

const pathOf = (url: string): string => url.replace(/:([A-Za-z]+)/g, '{$1}');

interface Documented {
  readonly paths?: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
}

/** Collects the routes registered after it; the document is made when it is first asked for. */
export const describeRoutes = (server: FastifyInstance): void => {
  const operations = new Map<string, Operation>();
  void server.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Millrace', version: '1', description },
      tags: Object.entries(tags).map(([name, text]) => ({ name, description: text })),
      components: {
        securitySchemes: {
          bearer: {
            type: 'http',
            scheme: 'bearer',
            description: 'An API key, or a JWT with the claims `role` (operator or shopper) and `sub`',
          },
        },
        schemas: problemSchemas,
      },
    },
    transform: ({ schema, url, route }) => {
      const operation = route.config?.operation;
      if (!operation) return { schema, url };
      for (const method of [route.method].flat())
        operations.set(`${method.toLowerCase()} ${pathOf(url)}`, operation);
      return { schema: { ...schema, ...outlineOf(operation) }, url };
    },
    transformObject: (document) => {
      const object = (
        'openapiObject' in document ? document.openapiObject : document.swaggerObject
      ) as Documented;
      for (const [path, methods] of Object.entries(object.paths ?? {})) {
        for (const [method, entry] of Object.entries(methods)) {
          const operation = operations.get(`${method} ${path}`);
          if (operation) documentOperation(entry, operation);
        }
      }
      return object;
    },
  });
};

const outlineOf = (operation: Operation) => ({
  operationId: operation.id,
  tags: [operation.tag],
  summary: operation.summary,
  ...(operation.description !== undefined && { description: operation.description }),
  security: operation.access === 'public' ? [] : [{ bearer: [] }],
  ...headersOf(headerParameters(operation)),
});

const headersOf = (parameters: readonly HeaderParameter[]) =>
  parameters.length === 0 ? {} : { headers: headersSchema(parameters) };

const headersSchema = (parameters: readonly HeaderParameter[]) =>
  Type.Object(
    Object.fromEntries(
      parameters.map(({ name, required, ...rest }) => {
        const schema = Type.String(rest);
        return [name, required ? schema : Type.Optional(schema)];
      }),
    ),
  );
