import { type TopicName, topicNames } from '../event-catalogue/topic-name.ts';
import { topicOf } from '../event-catalogue/upcasters.ts';
import type { SealedEvent } from './seal-event.ts';

/** An event that a model must have before it may answer. */
export interface AwaitedEvent {
  readonly topic: TopicName;
  readonly eventId: string;
  readonly occurredAtMs: number;
}

/** Part of the format: a topic keeps its digit, and a new one gets the next. */
const digitOf: Readonly<Record<TopicName, string>> = {
  'order-events': '1',
  'payment-events': '2',
  'like-events': '3',
  'product-view-events': '4',
  'stock-events': '5',
  'rekeyed-events': '6',
};
const topicOfDigit = new Map(topicNames.map((name) => [digitOf[name], name]));

/** The first digit is the format's own. Then for each event its topic, its id and its time, the latter two in base64url. */
const format = '1';
const entryLength = 31;
const idEnd = 23;
const timeBytes = 6;
/** Every text that it takes is a token: the last letter of an id has two bits only. At most 300 events, as many as products fit into an order. */
export const consistencyTokenPattern = '^1(?:[1-6][A-Za-z0-9_-]{21}[AQgw][A-Za-z0-9_-]{8}){0,300}$';
const pattern = new RegExp(consistencyTokenPattern);

/** Names the events of a command; of those that follow each other under one key the last one is enough. */
export const consistencyTokenOf = (events: readonly SealedEvent[]): string => {
  const last = new Map<string, AwaitedEvent>();
  for (const { eventType, partitionKey, eventId, occurredAt } of events) {
    const topic = topicOf(eventType);
    last.set(`${topic} ${partitionKey}`, { topic, eventId, occurredAtMs: occurredAt.getTime() });
  }
  return writeConsistencyToken([...last.values()]);
};

export const writeConsistencyToken = (events: readonly AwaitedEvent[]): string =>
  format +
  events
    .map(({ topic, eventId, occurredAtMs }) => {
      const time = Buffer.alloc(timeBytes);
      time.writeUIntBE(occurredAtMs, 0, timeBytes);
      const id = Buffer.from(eventId.replaceAll('-', ''), 'hex');
      return `${digitOf[topic]}${id.toString('base64url')}${time.toString('base64url')}`;
    })
    .join('');

/** Undefined for what no command has answered with. */
export const readConsistencyToken = (token: string): readonly AwaitedEvent[] | undefined => {
  if (!pattern.test(token)) return undefined;
  const events: AwaitedEvent[] = [];
  for (let start = format.length; start < token.length; start += entryLength) {
    const entry = token.slice(start, start + entryLength);
    const topic = topicOfDigit.get(entry.slice(0, 1));
    if (!topic) return undefined;
    const hex = Buffer.from(entry.slice(1, idEnd), 'base64url').toString('hex');
    events.push({
      topic,
      eventId: hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
      occurredAtMs: Buffer.from(entry.slice(idEnd), 'base64url').readUIntBE(0, timeBytes),
    });
  }
  return events;
};
