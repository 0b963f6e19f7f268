import type { Logger } from 'pino';
import type { SqlRunner } from '../postgres/database.ts';

/** Where relays in other processes hear that there is something new. */
export const outboxChannel = 'millrace_outbox';

const statement = { name: 'announce-events', text: `select pg_notify('${outboxChannel}', '')` };

/**
 * Tells relays in other processes that events were committed: at once, and then at most once per interval however many
 * commits there are. Never inside a command's transaction, where a NOTIFY makes every commit wait for the others.
 */
export const createAnnouncer = (
  db: SqlRunner,
  options: { intervalMs: number; log: Logger },
): { announce(): void } => {
  let isResting = false;
  let isDue = false;

  const announce = (): void => {
    if (isResting) {
      isDue = true;
      return;
    }
    isResting = true;
    isDue = false;
    // A relay that did not hear it polls.
    db.execute(statement).catch((error: Error) =>
      options.log.debug({ err: error }, 'New events were not announced'),
    );
    setTimeout(() => {
      isResting = false;
      if (isDue) announce();
    }, options.intervalMs).unref();
  };
  return { announce };
};
