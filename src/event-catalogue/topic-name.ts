/** The event topics, as the specification names them; each has a dead-letter topic beside it. */
export const topicNames = [
  'order-events',
  'payment-events',
  'like-events',
  'product-view-events',
  'stock-events',
] as const;

export type TopicName = (typeof topicNames)[number];
