import type { Commands } from '../commands/commands.ts';
import type { Consistency } from '../consistency/consistency.ts';
import type { DeadLetterAdmin } from '../dlq-admin/dlq-admin.ts';
import type { LiveUpdates } from '../live/live-updates.ts';
import type { OutboxAdmin } from '../outbox-admin/outbox-admin.ts';
import type { ProjectionAdmin } from '../projection-admin/projection-admin.ts';
import type { Order } from '../read-model/order.ts';
import type { Queries } from '../read-model/queries.ts';
import type { RelayAdmin } from '../relay-admin/relay-admin.ts';

/** A version, or a time: everything that had happened by then. */
export type Moment = { readonly version: number } | { readonly time: Date };

/** What was, from the journal. */
export interface Histories {
  /** Null when there was no such order then, or it had not got to that version. */
  orderAt(orderId: string, moment: Moment): Promise<Order | null>;
}

/** What the routes of the API are built on. */
export interface ApiPorts {
  readonly commands: Commands;
  readonly queries: Queries;
  readonly consistency: Consistency;
  readonly histories: Histories;
  readonly live: LiveUpdates;
  readonly outbox: OutboxAdmin;
  readonly relay: RelayAdmin;
  readonly projections: ProjectionAdmin;
  readonly deadLetters: DeadLetterAdmin;
  /** For commands whose client did not bring an id that ties things together. */
  readonly newCorrelationId: () => string;
}
