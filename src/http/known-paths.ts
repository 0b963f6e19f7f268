import type { FastifyInstance } from 'fastify';

export interface KnownPaths {
  /** The methods a path takes; empty when there is nothing at it. */
  methodsAt(path: string): readonly string[];
}

/** Fastify answers 404 for a known path with another method; this knows the difference. Must see every route. */
export const collectKnownPaths = (server: FastifyInstance): KnownPaths => {
  const methodsByPattern = new Map<string, Set<string>>();
  server.addHook('onRoute', ({ url, method }) => {
    const methods = methodsByPattern.get(url) ?? new Set();
    for (const name of [method].flat()) methods.add(name);
    methodsByPattern.set(url, methods);
  });
  return {
    methodsAt: (path) =>
      [...methodsByPattern]
        .flatMap(([pattern, methods]) => (matches(pattern, path) ? [...methods] : []))
        .sort(),
  };
};

const matches = (pattern: string, path: string): boolean => {
  const expected = pattern.split('/');
  const given = path.split('/');
  return (
    expected.length === given.length &&
    expected.every((step, index) => step.startsWith(':') || step === given[index])
  );
};
