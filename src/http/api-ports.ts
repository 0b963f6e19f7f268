import type { Commands } from '../commands/commands.ts';
import type { DeadLetterAdmin } from '../dlq-admin/dlq-admin.ts';
import type { HistoryEntry } from '../journal/stream-history.ts';
import type { OutboxAdmin } from '../outbox-admin/outbox-admin.ts';
import type { Queries } from '../read-model/queries.ts';
import type { RelayAdmin } from '../relay-admin/relay-admin.ts';

export interface Histories {
  /** The stream of an order and whose it is; null when there is no such order. */
  orderEvents(orderId: string): Promise<{ ownerId: string; events: readonly HistoryEntry[] } | null>;
}

/** What the routes of the API are built on. */
export interface ApiPorts {
  readonly commands: Commands;
  readonly queries: Queries;
  readonly histories: Histories;
  readonly outbox: OutboxAdmin;
  readonly relay: RelayAdmin;
  readonly deadLetters: DeadLetterAdmin;
  /** For commands whose client did not bring an id that ties things together. */
  readonly newCorrelationId: () => string;
}
