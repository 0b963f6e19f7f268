/** The life of an event, derived from cursor, failed rows, dead letters and what operators did. */
export type EventState = 'new' | 'sent' | 'failed' | 'waiting' | 'dead' | 'dropped';

/** An event of the outbox as an operator sees it in a list. */
export interface OutboxEvent {
  readonly id: number;
  readonly eventId: string;
  readonly eventType: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly aggregateVersion: number;
  readonly createdAt: Date;
  readonly state: EventState;
  readonly attempts: number;
  readonly lastError: string | null;
  readonly failedAt: Date | null;
  readonly nextRetryAt: Date | null;
  readonly deadAt: Date | null;
}

/** The columns of both views, by the names above. */
export const eventColumns = `
  id, event_id as "eventId", event_type as "eventType", aggregate_type as "aggregateType",
  aggregate_id as "aggregateId", aggregate_version as "aggregateVersion", created_at as "createdAt", state, attempts,
  last_error as "lastError", failed_at as "failedAt", next_retry_at as "nextRetryAt", dead_at as "deadAt"`;
