import { topicOf } from '../event-catalogue/upcasters.ts';
import { writeAudit } from '../operator-audit/write-audit.ts';
import type { Database, SqlRunner } from '../postgres/database.ts';
import { retryRelayLease } from '../relay/retry-relay.ts';
import { type EventRef, refValues } from './event-selection.ts';
import { eventColumns, type OutboxEvent } from './outbox-event.ts';

export type DropOutcome =
  | {
      readonly outcome: 'dropped' | 'would-drop';
      readonly event: OutboxEvent;
      /** What becomes of it that cannot be undone, for whoever has to say yes. */
      readonly warning: string;
    }
  /** Nothing is held under this id: it was sent, dropped before, or never there. */
  | { readonly outcome: 'not-held' }
  | { readonly outcome: 'waits-behind'; readonly event: OutboxEvent; readonly firstId: number }
  /** It may arrive at any moment, and an event behind it would overtake it: to be asked again when the try has its outcome. */
  | { readonly outcome: 'being-retried'; readonly event: OutboxEvent };

const findStatement = {
  name: 'find-held-event',
  text: `select ${eventColumns} from outbox_held_event where id = $1 or event_id = $2`,
};

// Taken before the state is read: whoever retries or drops the same aggregate now waits until this is over.
const lockStatement = {
  name: 'lock-held-aggregate',
  text: `
    select outbox_id as id from outbox_failed
    where (aggregate_type, aggregate_id) in (
      select aggregate_type, aggregate_id from outbox_failed where outbox_id = $1 or event_id = $2)
    order by outbox_id
    for update`,
};

// A try whose process is gone has its claim still; what tells is the lease under which it was made.
const retriedStatement = {
  name: 'is-aggregate-being-retried',
  text: `
    select exists (
      select from outbox_failed f
      join scheduler_lock lease on lease.token = f.claim_token
      where f.outbox_id = any ($1::bigint[]) and lease.name = $2 and lease.locked_until > clock_timestamp()) as found`,
};

const dropStatement = {
  name: 'drop-held-event',
  text: `
    with letter as (delete from outbox_dead_letter where original_id = $1 returning original_id),
         failed as (delete from outbox_failed where outbox_id = $1 returning outbox_id)
    insert into outbox_dropped (outbox_id)
    select original_id from letter union select outbox_id from failed
    on conflict (outbox_id) do update set dropped_at = excluded.dropped_at
    returning outbox_id`,
};

/** Gives an event up for good: it stays in the journal, consumers never see it, and its aggregate goes on. */
export const dropEvent = (
  database: Database,
  ref: EventRef,
  { who, dryRun }: { who: string; dryRun: boolean },
): Promise<DropOutcome> =>
  database.transaction(async (tx) => {
    const sequence = await lockSequence(tx, ref);
    const [event] = await tx.execute<OutboxEvent>(findStatement, refValues(ref));
    if (!event) return { outcome: 'not-held' };
    const [firstId] = sequence;
    if (event.state === 'waiting' && firstId !== undefined)
      return { outcome: 'waits-behind', event, firstId };
    if (await isBeingRetried(tx, sequence)) return { outcome: 'being-retried', event };
    const later = sequence.filter((id) => id > event.id).length;
    const warning = warningOf(event, later);
    if (dryRun) return { outcome: 'would-drop', event, warning };
    const dropped = await tx.execute(dropStatement, [event.id]);
    // A letter without a failed row has no lock on it: somebody else was faster.
    if (dropped.length === 0) return { outcome: 'not-held' };
    const {
      id: outboxId,
      eventId,
      eventType,
      aggregateType,
      aggregateId,
      aggregateVersion,
      lastError,
    } = event;
    await writeAudit(tx, {
      who,
      action: 'outbox.drop',
      target: { outboxId, eventId, eventType, aggregateType, aggregateId, aggregateVersion, lastError },
    });
    return { outcome: 'dropped', event, warning };
  });

const lockSequence = async (tx: SqlRunner, ref: EventRef): Promise<readonly number[]> =>
  (await tx.execute<{ id: number }>(lockStatement, refValues(ref))).map(({ id }) => id);

/** Whoever has claimed a row of these has done so before they were locked, and nobody can claim one until this is over. */
const isBeingRetried = async (tx: SqlRunner, sequence: readonly number[]): Promise<boolean> => {
  const [row] = await tx.execute<{ found: boolean }>(retriedStatement, [sequence, retryRelayLease]);
  return row?.found ?? false;
};

const warningOf = (event: OutboxEvent, later: number): string => {
  const { aggregateType, aggregateId, aggregateVersion, eventType } = event;
  const missed = `Consumers of ${topicNameOf(eventType)} will never see version ${aggregateVersion} of ${aggregateType}/${aggregateId} (${eventType})`;
  const next =
    later === 0 ? 'its next event goes on' : `${later} later event${later === 1 ? '' : 's'} can go on`;
  return `${missed}; ${next} without it, and what they count may differ from the journal from then on`;
};

/** A type this version does not know must not stop an operator from dropping it. */
const topicNameOf = (eventType: string): string => {
  try {
    return topicOf(eventType);
  } catch {
    return 'its topic';
  }
};
