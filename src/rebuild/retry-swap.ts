import { setTimeout as pause } from 'node:timers/promises';
import { OperatorError } from '../operator-error.ts';
import { codeOf } from '../postgres/sql-error.ts';
import type { RebuildPorts } from './rebuild-ports.ts';

const lockNotAvailable = '55P03';
const swapTriesMax = 60;
const swapPauseMs = 200;

/** The tables are not waited for longer than a moment, because every query would wait behind that. */
export const retrySwap = async (
  { onProgress, signal }: RebuildPorts,
  projection: string,
  swap: () => Promise<void>,
): Promise<void> => {
  for (let tries = 1; ; tries++) {
    onProgress({ projection, doing: 'swapping', events: 0 });
    try {
      return await swap();
    } catch (error) {
      if (codeOf(error) !== lockNotAvailable) throw error;
      if (tries === swapTriesMax)
        throw new OperatorError(`The tables of ${projection} are never free for the swap`, {
          remedy: 'Somebody holds them in a long transaction; the next rebuild goes on from here',
          cause: error,
        });
      await pause(swapPauseMs, undefined, { signal });
    }
  }
};
