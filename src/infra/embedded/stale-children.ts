import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { isRunning } from './process-identity.ts';
import { type RecordedChild, type StackState, staleChildren } from './stack-state.ts';
import { signalGroup } from './supervisor.ts';

const politeMs = 10_000;
const forcedMs = 5000;
const pollMs = 50;

/** Ends what a crashed owner left behind: two PostgreSQL servers or brokers must not share a data directory. */
export const stopStaleChildren = async (state: StackState | undefined, log: Logger): Promise<void> => {
  const stale = staleChildren(state);
  if (stale.length === 0) return;
  const names = stale.map(({ name, pid }) => `${name} (pid ${pid})`).join(', ');
  log.warn(`an earlier start ended without stopping its servers; stopping them now: ${names}`);
  for (const child of stale) signalGroup(child.pid, child.name === 'postgres' ? 'SIGINT' : 'SIGTERM');
  if (await areGoneWithin(stale, politeMs)) return;
  for (const child of stale.filter(isRunning)) signalGroup(child.pid, 'SIGKILL');
  if (await areGoneWithin(stale, forcedMs)) return;
  throw new Error(`servers of an earlier start cannot be stopped: ${names}`);
};

const areGoneWithin = async (children: readonly RecordedChild[], limitMs: number): Promise<boolean> => {
  const deadlineMs = Date.now() + limitMs;
  while (children.some(isRunning)) {
    if (Date.now() > deadlineMs) return false;
    await delay(pollMs);
  }
  return true;
};
