import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Authenticate } from '../auth/authenticator.ts';
import type { Caller } from '../auth/caller.ts';
import type { FailedLogins } from './failed-logins.ts';
import { problem } from './problem.ts';
import { sendProblem } from './problem-responses.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Null where no credentials are asked for. */
    caller: Caller | null;
  }
}

/** Lets in whom the route's operation admits. A route without an operation is a bug that the start finds. */
export const controlAccess = (
  server: FastifyInstance,
  { authenticate, failedLogins }: { authenticate: Authenticate; failedLogins: FailedLogins },
): void => {
  server.decorateRequest('caller', null);
  server.addHook('onRoute', ({ url, config }) => {
    if (config?.operation === undefined) throw new Error(`${url} does not say who may use it`);
  });

  const refuse = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const wait = await failedLogins.record(request);
    sendProblem(
      reply,
      wait === undefined
        ? problem('unauthenticated', {})
        : problem('too-many-failed-logins', {}, { 'retry-after': String(wait) }),
    );
  };

  const admit = (
    caller: Caller | undefined,
    request: FastifyRequest,
    reply: FastifyReply,
    done: (error?: Error) => void,
  ): void => {
    if (!caller || failedLogins.mustWait(request, caller)) {
      refuse(request, reply).catch(done);
      return;
    }
    failedLogins.accept(request, caller);
    if (request.routeOptions.config.operation?.access === 'operator' && caller.role !== 'operator') {
      sendProblem(reply, problem('role-insufficient', {}));
      return;
    }
    request.caller = caller;
    done();
  };

  server.addHook('onRequest', (request, reply, done) => {
    const found = authenticate(request.headers.authorization);
    // API keys are answered at once; only tokens are worth a turn of the event loop.
    if (found instanceof Promise) found.then((caller) => admit(caller, request, reply, done), done);
    else admit(found, request, reply, done);
  });
};

/** The caller of a route that asks for credentials. */
export const callerOf = ({ caller }: FastifyRequest): Caller => {
  if (!caller) throw new Error('A route without access control asked who calls');
  return caller;
};

/** Whether the caller may act for this user: operators for everybody, a shopper for itself. */
export const mayActFor = (caller: Caller, userId: string | undefined): boolean =>
  caller.role === 'operator' || userId === undefined || caller.userId === userId;
