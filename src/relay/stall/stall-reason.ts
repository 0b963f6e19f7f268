import type { Refusal } from '../refusal.ts';

/** A session of the database that holds something up, as `pg_stat_activity` knows it. */
export interface HoldingSession {
  /** Null for a prepared transaction, which belongs to no session any more. */
  readonly pid: number | null;
  readonly user: string | null;
  readonly application: string | null;
  readonly state: string | null;
  readonly transactionSince: Date | null;
  readonly querySince: Date | null;
  /** The beginning of its query, the last one when it is idle; not every role may see it. */
  readonly query: string | null;
}

/** Why events do not get to Kafka in time. */
export type StallReason =
  | { readonly kind: 'paused'; readonly by: string; readonly since: Date; readonly because: string | null }
  | { readonly kind: 'foreign-cursor' }
  | { readonly kind: 'no-relay' }
  | {
      readonly kind: 'without-owner';
      readonly shards: readonly number[];
      readonly of: number;
      /** Relays that are alive and could take them. */
      readonly relays: number;
    }
  | {
      readonly kind: 'holder-silent';
      readonly lease: string;
      readonly holder: string;
      readonly until: Date;
      /** When it last got anywhere; null when it never did. */
      readonly movedAt: Date | null;
    }
  | {
      readonly kind: 'circuit-open';
      readonly relay: string;
      readonly since: Date;
      readonly lastError: string | null;
    }
  | {
      readonly kind: 'relay-trouble';
      readonly relay: string;
      readonly lease: string;
      readonly since: Date;
      readonly error: string;
    }
  | {
      readonly kind: 'parked';
      readonly aggregates: number;
      readonly events: number;
      readonly first: ParkedEvent;
    }
  | ({ readonly kind: 'topic-refused' } & Omit<Extract<Refusal, { kind: 'topic' }>, 'kind'> & RefusedEvents)
  | ({ readonly kind: 'schema-refused' } & Omit<Extract<Refusal, { kind: 'schema' }>, 'kind'> & RefusedEvents)
  | {
      readonly kind: 'long-transaction';
      readonly effect: 'its-events-wait' | 'relay-waits-for-lock' | 'slot-waits';
      readonly session: HoldingSession;
    }
  | { readonly kind: 'slot-lost'; readonly slot: string }
  | { readonly kind: 'slot-inactive'; readonly slot: string; readonly lagBytes: number | null }
  | { readonly kind: 'slot-lagging'; readonly slot: string; readonly lagBytes: number }
  | { readonly kind: 'behind'; readonly pending: number; readonly movedAt: Date };

/** Events that cannot be published for one reason, and those that wait behind them. */
export interface RefusedEvents {
  readonly events: number;
  readonly aggregates: number;
  /** Aggregates whose first event was tried so often that nobody tries it any more. */
  readonly dead: number;
}

/** The event in front, which the others of its aggregate wait for. */
export interface ParkedEvent {
  readonly id: number;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly dead: boolean;
  readonly attempts: number;
  readonly lastError: string;
}

/** The same trouble goes by the same name however its figures change: whoever tells of it tells it once. */
export const identityOf = (reason: StallReason): string => {
  switch (reason.kind) {
    case 'paused':
      return `${reason.kind} ${reason.since.toISOString()}`;
    case 'without-owner':
      return `${reason.kind} ${reason.shards.join()} of ${reason.of}`;
    case 'holder-silent':
      return `${reason.kind} ${reason.lease} ${reason.holder}`;
    case 'circuit-open':
      return `${reason.kind} ${reason.relay}`;
    case 'relay-trouble':
      return `${reason.kind} ${reason.relay} ${reason.lease} ${reason.error}`;
    case 'parked':
      return `${reason.kind} ${reason.first.dead}`;
    case 'topic-refused':
      return `${reason.kind} ${reason.topic} ${reason.refusal}`;
    case 'schema-refused':
      return `${reason.kind} ${reason.subject}`;
    case 'long-transaction':
      return `${reason.kind} ${reason.effect} ${reason.session.pid} ${reason.session.transactionSince?.toISOString()}`;
    default:
      return reason.kind;
  }
};
