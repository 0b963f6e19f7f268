import { type EventName, type EventType, eventCatalogue, eventNameOf } from './event-catalogue.ts';
import type { TopicName } from './topic-name.ts';

type EventData = Readonly<Record<string, unknown>>;

/** What an event type of the past becomes. Chains are fine: a v1 may become a v2 that becomes a v3. */
export interface Upcaster {
  readonly from: string;
  readonly to: string;
  /** File in `avro/` with the record that the old type carried. */
  readonly schemaFile: `${string}.v${number}.avsc`;
  readonly upcast: (data: EventData) => EventData;
}

const steps = [
  {
    // v1 had price and currency side by side; money is one value now, as in orders and payments.
    from: 'loopers.product.registered.v1',
    to: 'loopers.product.registered.v2',
    schemaFile: 'product-registered.v1.avsc',
    upcast: ({ priceMinor, currency, ...rest }) => ({
      ...rest,
      price: { amountMinor: priceMinor, currency },
    }),
  },
] as const satisfies readonly Upcaster[];

export const upcasters: readonly Upcaster[] = steps;
export type PastEventType = (typeof steps)[number]['from'];
export type UpcastTarget = (typeof steps)[number]['to'];

const byType = new Map(upcasters.map((upcaster) => [upcaster.from, upcaster]));

/** An event that no version of this program has ever known. */
export class UnknownEventType extends Error {
  override readonly name = 'UnknownEventType';
}

/** Follows the chain to today's type; the data is brought along step by step. */
export const upcast = (
  type: string,
  data: EventData,
): { readonly type: EventType; readonly data: EventData } => {
  const step = byType.get(type);
  if (step) return upcast(step.to, step.upcast(data));
  if (!eventNameOf(type)) throw new UnknownEventType(`${type} is not an event type this version knows`);
  return { type: type as EventType, data };
};

/** The type at the end of the chain; of today, unless nobody has ever known the one at its beginning. */
export const newestTypeOf = (eventType: string): string => {
  const step = byType.get(eventType);
  return step ? newestTypeOf(step.to) : eventType;
};

/** What an event is called today, also one of a type of the past. */
export const eventNameToday = (eventType: string): EventName => {
  const name = eventNameOf(newestTypeOf(eventType));
  if (!name) throw new UnknownEventType(`${eventType} is not an event type this version knows`);
  return name;
};

/** Where an event goes, also one of a type of the past: it stays with its successors, or order would break. */
export const topicOf = (eventType: string): TopicName => eventCatalogue[eventNameToday(eventType)].topic;
