import type { Logger } from 'pino';

/** The batch is committed: whoever only looks at its values cannot undo that, and one line says what is wrong with them. */
export const lookAtValues = (looks: readonly (() => void)[], log: Logger): void => {
  let failure: unknown;
  let failed = 0;
  for (const look of looks) {
    try {
      look();
    } catch (error) {
      failure ??= error;
      failed++;
    }
  }
  if (failed > 0) {
    log.error(
      { err: failure, failed },
      'A function given to peek failed; the batch is committed all the same',
    );
  }
};
