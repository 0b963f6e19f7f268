import type { OutboxAdmin } from '../../../src/outbox-admin/outbox-admin.ts';
import type { OutboxEvent } from '../../../src/outbox-admin/outbox-event.ts';

export const deadEvent: OutboxEvent = {
  id: 7,
  eventId: '0198c0de-0000-7000-8000-000000000007',
  eventType: 'loopers.order.created.v1',
  aggregateType: 'Order',
  aggregateId: 'o-1',
  aggregateVersion: 1,
  createdAt: new Date(0),
  state: 'dead',
  attempts: 10,
  lastError: 'message too large',
  failedAt: new Date(1000),
  nextRetryAt: null,
  deadAt: new Date(1000),
};

/** An outbox in which everything that is asked for is there and everything that is told to be done is done. */
export const goodOutbox: OutboxAdmin = {
  pending: async () => [],
  failed: async () => [{ ...deadEvent, state: 'failed', nextRetryAt: new Date(2000), deadAt: null }],
  dead: async () => [deadEvent],
  show: async () => ({
    ...deadEvent,
    source: 'spec',
    partitionKey: 'o-1',
    requestId: 'r-1',
    traceparent: null,
    payloadBytes: 12,
    isGenuine: true,
    envelope: { unreadable: 'not in this spec' },
    operators: [{ at: new Date(3000), who: 'operator:ann', action: 'outbox.retry' }],
  }),
  retry: async (_selection, { dryRun }) => ({ dryRun, events: 2, aggregates: 1, revived: 1 }),
  drop: async (_ref, { dryRun }) => ({
    outcome: dryRun ? 'would-drop' : 'dropped',
    event: deadEvent,
    warning: 'Consumers will miss it',
  }),
  importBackup: () => Promise.reject(new Error('not over HTTP')),
};
