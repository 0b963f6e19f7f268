import { setTimeout as pause } from 'node:timers/promises';
import { OperatorError } from '../operator-error.ts';
import { codeOf } from '../postgres/sql-error.ts';
import type { RebuildPorts, RebuildProgress } from './rebuild-ports.ts';

export const lockNotAvailable = '55P03';
const triesMax = 60;
const pauseMs = 200;

/** Locks are not waited for longer than a moment, because everybody else would wait behind that. */
export const retryWhileLocked = async <T>(
  { onProgress, signal }: Pick<RebuildPorts, 'onProgress' | 'signal'>,
  { projection, doing }: Pick<RebuildProgress, 'projection' | 'doing'>,
  work: () => Promise<T>,
): Promise<T> => {
  for (let tries = 1; ; tries++) {
    onProgress({ projection, doing, events: 0 });
    try {
      return await work();
    } catch (error) {
      if (codeOf(error) !== lockNotAvailable) throw error;
      if (tries === triesMax)
        throw new OperatorError(`The read model of ${projection} is never free for a moment`, {
          remedy: 'Somebody holds it in a long transaction; the next rebuild goes on from here',
          cause: error,
        });
      await pause(pauseMs, undefined, { signal });
    }
  }
};
