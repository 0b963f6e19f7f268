import type { CataloguedEvent } from '../event-catalogue/event-catalogue.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { appendEvents } from './append-events.ts';
import { sealEvent } from './seal-event.ts';

/** An event that a stream derives from another one. */
export interface DerivedFact {
  /** Follows from the event it is derived from, so that deriving it again gives the same. */
  readonly id: string;
  readonly event: CataloguedEvent;
  readonly timeMs: number;
  /** The event it comes from. */
  readonly causationId: string;
}

const knownStatement = {
  name: 'find-derived-events',
  text: `select aggregate_id as id from outbox where aggregate_type = 'Derived' and aggregate_id = any ($1::text[])`,
};

/** Two events with one id would become one: that is a mistake in what made the ids, and nothing of it is appended. */
const requireNoTwins = (facts: readonly DerivedFact[]): void => {
  const seen = new Set<string>();
  for (const { id, causationId } of facts) {
    if (seen.has(id)) throw new Error(`Two events that are derived from ${causationId} have the id ${id}`);
    seen.add(id);
  }
};

/**
 * Appends what has not been derived before, each as a stream of its own. Nobody else derives the same at the same time: ids
 * have the topology's name in them, and whoever derives for it holds its task.
 */
export const appendDerived = async (
  tx: SqlRunner,
  source: string,
  facts: readonly DerivedFact[],
): Promise<void> => {
  if (facts.length === 0) return;
  requireNoTwins(facts);
  const known = await tx.execute<{ id: string }>(knownStatement, [facts.map(({ id }) => id)]);
  const there = new Set(known.map(({ id }) => id));
  const fresh = facts.filter(({ id }) => !there.has(id));
  await appendEvents(
    tx,
    fresh.map(({ id, event, timeMs, causationId }) =>
      sealEvent({
        eventId: id,
        stream: { aggregateType: 'Derived', aggregateId: id },
        version: 1,
        event,
        occurredAt: new Date(timeMs),
        source,
        context: { requestId: causationId, correlationId: causationId, traceparent: null },
      }),
    ),
  );
};
