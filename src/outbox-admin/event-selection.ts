export interface AggregateRef {
  readonly aggregateType: string;
  readonly aggregateId: string;
}

/** One event, by its place in the outbox or by the id that consumers know. */
export type EventRef = { readonly outboxId: number } | { readonly eventId: string };

export interface EventFilter {
  readonly aggregate?: AggregateRef | undefined;
  readonly eventType?: string | undefined;
  readonly limit: number;
}

/** What a list shows unless told otherwise, and what it shows at most. */
export const listLimitDefault = 50;
export const listLimitMax = 10_000;

/** `Order/o-1`; undefined when it is not of that form. Ids may have slashes, types have none. */
export const parseAggregateRef = (text: string): AggregateRef | undefined => {
  const slash = text.indexOf('/');
  if (slash <= 0 || slash === text.length - 1) return undefined;
  return { aggregateType: text.slice(0, slash), aggregateId: text.slice(slash + 1) };
};

/** A number is an outbox id, a UUID an event id; undefined when it is neither. */
export const parseEventRef = (text: string): EventRef | undefined => {
  if (/^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(Number(text))) return { outboxId: Number(text) };
  if (/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text)) return { eventId: text.toLowerCase() };
  return undefined;
};

/** For statements that take both and use the one that is there. */
export const refValues = (ref: EventRef): readonly [number | null, string | null] =>
  'outboxId' in ref ? [ref.outboxId, null] : [null, ref.eventId];
