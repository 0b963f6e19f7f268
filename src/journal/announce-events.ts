import type { Logger } from 'pino';
import { type Announcer, createChannelAnnouncer } from '../postgres/announcer.ts';
import type { SqlRunner } from '../postgres/database.ts';

/** Where relays in other processes hear that there is something new. */
export const outboxChannel = 'millrace_outbox';

/** Tells relays in other processes that events were committed. */
export const createAnnouncer = (db: SqlRunner, options: { intervalMs: number; log: Logger }): Announcer =>
  createChannelAnnouncer(db, { ...options, channel: outboxChannel });
