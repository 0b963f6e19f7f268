/**
 * The event topics, as the specification names them, and the one that streams use to bring records to another key. Each has
 * a dead-letter topic beside it.
 */
export const topicNames = [
  'order-events',
  'payment-events',
  'like-events',
  'product-view-events',
  'stock-events',
  'rekeyed-events',
] as const;

export type TopicName = (typeof topicNames)[number];
