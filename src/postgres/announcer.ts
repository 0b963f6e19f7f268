import type { Logger } from 'pino';
import type { SqlRunner } from './database.ts';

export interface Announcer {
  announce(): void;
}

/**
 * Tells other processes on a channel that something was committed: at once, and then at most once per interval however many
 * commits there are. Never inside the transaction, where a NOTIFY makes every commit wait for the others.
 */
export const createChannelAnnouncer = (
  db: SqlRunner,
  options: { channel: string; intervalMs: number; log: Logger },
): Announcer => {
  const { channel, intervalMs, log } = options;
  const statement = { name: `announce-${channel}`, text: `select pg_notify('${channel}', '')` };
  let isResting = false;
  let isDue = false;

  const announce = (): void => {
    if (isResting) {
      isDue = true;
      return;
    }
    isResting = true;
    isDue = false;
    // Whoever did not hear it polls.
    db.execute(statement).catch((error: Error) =>
      log.debug({ err: error, channel }, 'News was not announced'),
    );
    setTimeout(() => {
      isResting = false;
      if (isDue) announce();
    }, intervalMs).unref();
  };
  return { announce };
};
