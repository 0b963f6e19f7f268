import type { FastifyInstance } from 'fastify';

/** What the server tells whoever counts. */
export interface HttpObserver {
  answered(request: {
    readonly method: string;
    /** The pattern and not the path: there are few of those, and no ids in them. */
    readonly route: string;
    readonly status: number;
    readonly durationMs: number;
  }): void;
}

/** Paths that nobody serves are one route, or anybody could make up new ones for ever. */
const noRoute = 'none';

export const observeRequests = (server: FastifyInstance, observer: HttpObserver): void => {
  server.addHook('onResponse', (request, reply, done) => {
    observer.answered({
      method: request.method,
      route: request.is404 ? noRoute : (request.routeOptions.url ?? noRoute),
      status: reply.statusCode,
      durationMs: reply.elapsedTime,
    });
    done();
  });
};
