import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Consistency } from '../consistency/consistency.ts';
import { readConsistencyToken } from '../journal/consistency-token.ts';
import { parsePreferredWait } from './header-values.ts';
import { problem } from './problem.ts';
import { sendProblem } from './problem-responses.ts';

const waitDefaultSeconds = 5;
const waitMaxSeconds = 30;

/** Whether the answer has to show what a command has just done: then nothing that was kept will do. */
export const bringsToken = ({ headers }: FastifyRequest): boolean =>
  headers['consistency-token'] !== undefined;

/** Lets queries that bring a token wait until what they read has the events of that command, or say that it has not. */
export const readConsistently = (server: FastifyInstance, consistency: Consistency): void => {
  // A server that closes waits for its requests, and must not wait for these.
  server.addHook('preClose', async () => consistency.close());
  server.addHook('preHandler', async (request, reply) => {
    const models = request.routeOptions.config.operation?.reads;
    if (!models || !bringsToken(request)) return undefined;
    const events = readConsistencyToken(String(request.headers['consistency-token']));
    if (!events) return sendProblem(reply, problem('consistency-token-invalid', {}));

    const asked = parsePreferredWait(request.headers.prefer);
    const waitSeconds = Math.min(asked ?? waitDefaultSeconds, waitMaxSeconds);
    if (asked !== undefined) reply.header('preference-applied', `wait=${waitSeconds}`);
    const hungUp = new AbortController();
    request.raw.once('close', () => hungUp.abort());
    const shortfall = await consistency.waitFor({
      events,
      models,
      waitMs: waitSeconds * 1000,
      signal: hungUp.signal,
    });
    if (!shortfall) return undefined;
    const { model } = shortfall;
    if (shortfall.kind === 'missed-window')
      return sendProblem(
        reply,
        problem('missed-window', {
          model,
          missed: shortfall.missed,
          detail: `${shortfall.missed} of the events came to ${model} after their window had closed; ask without the token for what there is`,
        }),
      );
    const { awaited, missing, reachedAt, pausedSince } = shortfall;
    const has = `has ${awaited - missing} of the ${awaited} events after ${waitSeconds} s`;
    return sendProblem(
      reply,
      problem('not-caught-up', {
        model,
        awaited,
        missing,
        reachedAt: reachedAt?.toISOString() ?? null,
        pausedSince: pausedSince?.toISOString() ?? null,
        detail: pausedSince
          ? `${model} is paused by an operator since ${pausedSince.toISOString()} and ${has}; until it is resumed, ask without the token for what there is`
          : `${model} ${has}; ask again, or without the token for what there is`,
      }),
    );
  });
};
