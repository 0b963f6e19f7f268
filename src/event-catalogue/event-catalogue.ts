import type { DomainEvent } from '../domain/domain-event.ts';
import type { RecordRekeyed } from './record-rekeyed.ts';
import type { TopicName } from './topic-name.ts';

/** What can travel: the facts of the business, and what streams send to themselves. */
export type CataloguedEvent = DomainEvent | RecordRekeyed;
export type EventName = CataloguedEvent['type'];
export type EventOf<Name extends EventName> = Extract<CataloguedEvent, { type: Name }>;
export type AggregateType = 'Product' | 'ProductView' | 'Order' | 'Payment' | 'Like';
/** Derived events have streams of their own, one each: they take no part in anybody's decisions. */
export type JournalStreamType = AggregateType | 'Derived';

interface CatalogueEntry<Event extends CataloguedEvent> {
  readonly eventType: `loopers.${string}.${string}.v${number}`;
  readonly aggregateType: JournalStreamType;
  readonly topic: TopicName;
  readonly partitionKey: (event: Event) => string;
  /** File in `avro/` with the record that the envelope carries as its data. */
  readonly schemaFile: `${string}.v${number}.avsc`;
}

const byProduct = (event: { readonly productId: string }): string => event.productId;
const byOrder = (event: { readonly orderId: string }): string => event.orderId;
const byPayment = (event: { readonly paymentId: string }): string => event.paymentId;

const onProduct = { aggregateType: 'Product', topic: 'stock-events', partitionKey: byProduct } as const;
const onOrder = { aggregateType: 'Order', topic: 'order-events', partitionKey: byOrder } as const;
const onPayment = { aggregateType: 'Payment', topic: 'payment-events', partitionKey: byPayment } as const;
// Likes are keyed by product and not by their own aggregate: what counts likes counts them per product.
const onLike = { aggregateType: 'Like', topic: 'like-events', partitionKey: byProduct } as const;
const onView = {
  aggregateType: 'ProductView',
  topic: 'product-view-events',
  partitionKey: byProduct,
} as const;

/** How each domain event travels. An event without an entry does not compile. */
export const eventCatalogue = {
  ProductRegistered: {
    ...onProduct,
    eventType: 'loopers.product.registered.v2',
    schemaFile: 'product-registered.v2.avsc',
  },
  StockAdjusted: {
    ...onProduct,
    eventType: 'loopers.stock.adjusted.v1',
    schemaFile: 'stock-adjusted.v1.avsc',
  },
  StockReserved: {
    ...onProduct,
    eventType: 'loopers.stock.reserved.v1',
    schemaFile: 'stock-reserved.v1.avsc',
  },
  StockReleased: {
    ...onProduct,
    eventType: 'loopers.stock.released.v1',
    schemaFile: 'stock-released.v1.avsc',
  },
  StockDepleted: {
    ...onProduct,
    eventType: 'loopers.stock.depleted.v1',
    schemaFile: 'stock-depleted.v1.avsc',
  },
  ProductViewed: { ...onView, eventType: 'loopers.product.viewed.v1', schemaFile: 'product-viewed.v1.avsc' },
  OrderCreated: { ...onOrder, eventType: 'loopers.order.created.v1', schemaFile: 'order-created.v1.avsc' },
  OrderPaid: { ...onOrder, eventType: 'loopers.order.paid.v1', schemaFile: 'order-paid.v1.avsc' },
  OrderCanceled: { ...onOrder, eventType: 'loopers.order.canceled.v1', schemaFile: 'order-canceled.v1.avsc' },
  PaymentCreated: {
    ...onPayment,
    eventType: 'loopers.payment.created.v1',
    schemaFile: 'payment-created.v1.avsc',
  },
  PaymentPaid: { ...onPayment, eventType: 'loopers.payment.paid.v1', schemaFile: 'payment-paid.v1.avsc' },
  PaymentFailed: {
    ...onPayment,
    eventType: 'loopers.payment.failed.v1',
    schemaFile: 'payment-failed.v1.avsc',
  },
  LikeCreated: { ...onLike, eventType: 'loopers.like.created.v1', schemaFile: 'like-created.v1.avsc' },
  LikeCanceled: { ...onLike, eventType: 'loopers.like.canceled.v1', schemaFile: 'like-canceled.v1.avsc' },
  RecordRekeyed: {
    aggregateType: 'Derived',
    topic: 'rekeyed-events',
    partitionKey: ({ key }) => key,
    eventType: 'loopers.record.rekeyed.v1',
    schemaFile: 'record-rekeyed.v1.avsc',
  },
} as const satisfies { readonly [Name in EventName]: CatalogueEntry<EventOf<Name>> };

export type EventType = (typeof eventCatalogue)[EventName]['eventType'];

export const eventNames = Object.keys(eventCatalogue) as EventName[];

const byEventType = new Map<string, EventName>(
  eventNames.map((name) => [eventCatalogue[name].eventType, name]),
);

/** The event that a type of today stands for; types of the past go through the upcasters first. */
export const eventNameOf = (eventType: string): EventName | undefined => byEventType.get(eventType);

/** The table's entries differ in the event they take; this is the one place that looks through that. */
export const partitionKeyOf = (event: CataloguedEvent): string => {
  const entry = eventCatalogue[event.type] as CatalogueEntry<CataloguedEvent>;
  return entry.partitionKey(event);
};
