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

/** Appends what has not been derived before, each as a stream of its own. Nobody else derives the same at the same time. */
export const appendDerived = async (
  tx: SqlRunner,
  source: string,
  facts: readonly DerivedFact[],
): Promise<void> => {
  if (facts.length === 0) return;
  const known = await tx.execute<{ id: string }>(knownStatement, [facts.map(({ id }) => id)]);
  const there = new Set(known.map(({ id }) => id));
  const fresh = new Map(facts.filter(({ id }) => !there.has(id)).map((fact) => [fact.id, fact]));
  await appendEvents(
    tx,
    [...fresh.values()].map(({ id, event, timeMs, causationId }) =>
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
