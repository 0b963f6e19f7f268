import type { OutboxEvent } from '../outbox-admin/outbox-event.ts';
import type { ShownEvent } from '../outbox-admin/show-event.ts';
import { ago } from './ago.ts';
import { table } from './table.ts';

/** Longer reasons are cut in lists; `show` and `--json` have all of it. */
const reasonLengthMax = 80;

const shortened = (text: string): string => {
  const line = text.replace(/\s+/g, ' ');
  return line.length > reasonLengthMax ? `${line.slice(0, reasonLengthMax - 1)}…` : line;
};

export const describeEvents = (
  events: readonly OutboxEvent[],
  { kind, limit, now }: { kind: 'pending' | 'failed' | 'dead'; limit: number; now: Date },
): string => {
  if (events.length === 0) return `No ${kind} events.`;
  const rows = events.map((event) => [
    String(event.id),
    `${event.aggregateType}/${event.aggregateId}@${event.aggregateVersion}`,
    event.eventType,
    ago(event.createdAt, now),
    event.state,
    ...(kind === 'pending' ? [] : [String(event.attempts), shortened(event.lastError ?? '')]),
  ]);
  const heading = ['ID', 'AGGREGATE', 'TYPE', 'WRITTEN', 'STATE'];
  return [
    table([kind === 'pending' ? heading : [...heading, 'ATTEMPTS', 'LAST ERROR'], ...rows]),
    ...(events.length === limit ? [`The oldest ${limit}; --limit shows more.`] : []),
  ].join('\n');
};

export const describeShown = (event: ShownEvent, now: Date): string => {
  const time = (at: Date): string => `${at.toISOString()} (${ago(at, now)})`;
  const facts: (readonly [string, string | null])[] = [
    ['event id', event.eventId],
    ['type', event.eventType],
    ['aggregate', `${event.aggregateType}/${event.aggregateId} version ${event.aggregateVersion}`],
    ['key', event.partitionKey],
    ['request', event.requestId],
    ['trace', event.traceparent],
    [
      'payload',
      `${event.payloadBytes} bytes, ${event.isGenuine ? 'as the command wrote it' : 'NOT what the command wrote: its hash differs'}`,
    ],
    ['state', event.state],
    ['written', time(event.createdAt)],
    ['attempts', event.failedAt && String(event.attempts)],
    ['failed', event.failedAt && time(event.failedAt)],
    ['last error', event.lastError],
    ['next try', event.state === 'failed' && event.nextRetryAt ? event.nextRetryAt.toISOString() : null],
    ['dead', event.deadAt && time(event.deadAt)],
    ...event.operators.map(
      ({ at, who, action }) => ['operator', `${action} by ${who}, ${time(at)}`] as const,
    ),
  ];
  const told = facts.flatMap(([name, value]) => (value === null ? [] : [[`  ${name}`, value]]));
  const says =
    'unreadable' in event.envelope
      ? `It cannot be read: ${event.envelope.unreadable}`
      : JSON.stringify(event.envelope, null, 2);
  return [`EVENT ${event.id}`, table(told), 'ENVELOPE', says.replace(/^/gm, '  ')].join('\n');
};
