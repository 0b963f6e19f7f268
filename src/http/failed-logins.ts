import { normalizeIP } from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Caller } from '../auth/caller.ts';
import { createBucket } from './rate-limits.ts';

/** Keeps keys from being guessed at speed. */
export interface FailedLogins {
  /** Counts one; answers with the seconds to wait when there were too many. */
  record(request: FastifyRequest): Promise<number | undefined>;
  /** Whether the address has been wrong too often to be believed now, even if it is right this time. */
  mustWait(request: FastifyRequest, caller: Caller): boolean;
  accept(request: FastifyRequest, caller: Caller): void;
}

const unlimited: FailedLogins = {
  record: async () => undefined,
  mustWait: () => false,
  accept: () => {},
};

const entriesMax = 10_000;

/** Needs @fastify/rate-limit to be registered. */
export const createFailedLogins = (server: FastifyInstance, perMinute: number): FailedLogins => {
  const count = createBucket(server, { perMinute, keyOf: ({ ip }) => normalizeIP(ip) });
  if (!count) return unlimited;
  const waitingUntilMs = new Map<string, number>();
  // Who was let in from an address stays so: one guesser must not lock out everybody behind the same proxy.
  const accepted = new Map<string, true>();

  return {
    record: async (request) => {
      const waitSeconds = await count(request);
      if (waitSeconds === undefined) return undefined;
      remember(waitingUntilMs, normalizeIP(request.ip), Date.now() + waitSeconds * 1000);
      return waitSeconds;
    },
    mustWait: ({ ip }, { identity }) => {
      if (waitingUntilMs.size === 0) return false;
      const address = normalizeIP(ip);
      const untilMs = waitingUntilMs.get(address);
      if (untilMs === undefined) return false;
      if (untilMs > Date.now()) return !accepted.has(`${ip} ${identity}`);
      waitingUntilMs.delete(address);
      return false;
    },
    accept: ({ ip }, { identity }) => {
      const pair = `${ip} ${identity}`;
      if (!accepted.has(pair)) remember(accepted, pair, true);
    },
  };
};

const remember = <Value>(entries: Map<string, Value>, key: string, value: Value): void => {
  if (entries.size >= entriesMax) {
    const [oldest] = entries.keys();
    if (oldest !== undefined) entries.delete(oldest);
  }
  entries.set(key, value);
};
