import type { FastifyInstance } from 'fastify';
import { collectKnownPaths } from './known-paths.ts';
import { problem } from './problem.ts';
import { sendProblem } from './problem-responses.ts';
import { securityHeaders } from './security-headers.ts';

/** What holds for every request, before anything else looks at it: an id, and a plain answer where there is no route. */
export const handleEveryRequest = (server: FastifyInstance): void => {
  const known = collectKnownPaths(server);
  let closing = false;
  server.addHook('preClose', (done) => {
    closing = true;
    done();
  });
  // A request that was under way when the stop began would otherwise keep its connection, and the stop, waiting.
  server.addHook('onSend', (_request, reply, payload, done) => {
    if (closing) reply.header('connection', 'close');
    done(null, payload);
  });
  server.addHook('onRequest', (request, reply, done) => {
    reply.headers(securityHeaders).header('x-request-id', request.id);
    if (closing) {
      sendProblem(reply, problem('shutting-down', {}));
      return;
    }
    if (!request.is404) {
      done();
      return;
    }
    // Answered here and not in a handler: nobody reads a body that belongs nowhere.
    const path = request.url.split('?', 1)[0] ?? '';
    const detail = `${request.method} ${path}`;
    const methods = known.methodsAt(path);
    sendProblem(
      reply,
      methods.length === 0
        ? problem('not-found', { detail })
        : problem('method-not-allowed', { detail }, { allow: methods.join(', ') }),
    );
  });
};
