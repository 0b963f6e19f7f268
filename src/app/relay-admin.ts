import type { Config } from '../config/settings.ts';
import type { Database } from '../postgres/database.ts';
import { createRelayAdmin, type RelayAdmin } from '../relay-admin/relay-admin.ts';

/** The tools for relays with the settings of this process. */
export const relayAdminOf = (database: Database, { relay, streams }: Config): RelayAdmin =>
  createRelayAdmin(database, { ...relay, handledRetentionMs: streams.handledRetentionMs });
