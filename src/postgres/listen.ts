import pg from 'pg';
import type { Logger } from 'pino';

const reconnectDelayMs = 1000;

/**
 * Calls back for every NOTIFY on a channel, over a connection of its own that is opened again when it breaks. Only a
 * hint: what came while there was no connection is not told.
 */
export const listenTo = (options: {
  url: string;
  channel: string;
  connectTimeoutMs: number;
  /** With what was sent along; with nothing when something may have been missed. */
  onNotify: (payload?: string) => void;
  log: Logger;
}): { stop(): Promise<void> } => {
  const { url, channel, connectTimeoutMs, onNotify, log } = options;
  let stopping = false;
  let client: pg.Client | undefined;
  let wake: (() => void) | undefined;

  const listenOnce = async (): Promise<void> => {
    const connection = new pg.Client({
      connectionString: url,
      application_name: 'millrace-listen',
      connectionTimeoutMillis: connectTimeoutMs,
      keepAlive: true,
    });
    client = connection;
    const ended = new Promise<void>((resolve) => {
      connection.once('end', () => resolve());
      connection.on('error', (error) => {
        log.debug({ err: error }, 'The connection that listens for new events broke; polling goes on');
        resolve();
      });
    });
    await connection.connect();
    connection.on('notification', ({ payload }) => onNotify(payload));
    await connection.query(`listen ${pg.escapeIdentifier(channel)}`);
    // What was told before the connection stood may have been missed.
    onNotify();
    if (!stopping) await ended;
    await connection.end().catch(() => {});
  };

  const run = async (): Promise<void> => {
    while (!stopping) {
      await listenOnce().catch((error: Error) =>
        log.debug({ err: error }, 'Cannot listen for new events; polling goes on'),
      );
      if (stopping) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, reconnectDelayMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  };
  const finished = run();
  return {
    stop: async () => {
      stopping = true;
      wake?.();
      await client?.end().catch(() => {});
      await finished;
    },
  };
};
