import type { DomainEvent } from '../domain/domain-event.ts';
import type { TopicName } from './topic-name.ts';

export type EventName = DomainEvent['type'];
export type AggregateType = 'Product' | 'ProductView';

interface CatalogueEntry<Event extends DomainEvent> {
  readonly eventType: `loopers.${string}.${string}.v${number}`;
  readonly aggregateType: AggregateType;
  readonly topic: TopicName;
  readonly partitionKey: (event: Event) => string;
  /** File in `avro/` with the record that the envelope carries as its data. */
  readonly schemaFile: string;
}

/** How each domain event travels. An event without an entry does not compile. */
export const eventCatalogue = {
  ProductRegistered: {
    eventType: 'loopers.product.registered.v1',
    aggregateType: 'Product',
    topic: 'stock-events',
    partitionKey: (event) => event.productId,
    schemaFile: 'product-registered.v1.avsc',
  },
  ProductViewed: {
    eventType: 'loopers.product.viewed.v1',
    aggregateType: 'ProductView',
    topic: 'product-view-events',
    partitionKey: (event) => event.productId,
    schemaFile: 'product-viewed.v1.avsc',
  },
} as const satisfies { readonly [Name in EventName]: CatalogueEntry<Extract<DomainEvent, { type: Name }>> };

export type EventType = (typeof eventCatalogue)[EventName]['eventType'];

export const eventNames = Object.keys(eventCatalogue) as EventName[];

const byEventType = new Map<string, EventName>(
  eventNames.map((name) => [eventCatalogue[name].eventType, name]),
);

export const eventNameOf = (eventType: string): EventName | undefined => byEventType.get(eventType);

/** The table's entries differ in the event they take; this is the one place that looks through that. */
export const partitionKeyOf = (event: DomainEvent): string => {
  const entry = eventCatalogue[event.type] as CatalogueEntry<DomainEvent>;
  return entry.partitionKey(event);
};
