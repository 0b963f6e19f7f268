import type { RelayAdmin } from '../../../src/relay-admin/relay-admin.ts';

const pause = { by: 'operator:ann', since: new Date(1000), because: 'broker upgrade' };

/** Relays that are paused, tell why events are late, and do what they are told. */
export const goodRelay: RelayAdmin = {
  status: async () => ({
    pause,
    pending: 3,
    overdue: 1,
    oldestPendingAt: new Date(2000),
    failed: 1,
    dead: 2,
    shards: [
      {
        number: 1,
        of: 1,
        cursor: { from: '10:10:', to: '12:12:', lastId: 7 },
        movedAt: null,
        pending: 3,
        oldestPendingAt: new Date(2000),
        heldBy: null,
        heldUntil: null,
      },
    ],
    processes: [
      {
        name: 'host/1',
        startedAt: new Date(0),
        isAlive: true,
        circuit: 'open',
        circuitSince: new Date(500),
        troubles: [{ lease: 'outbox-relay-main', since: new Date(400), error: 'refused' }],
      },
    ],
    slot: { name: 'millrace_relay', state: 'reserved', active: true, lagBytes: 12 },
    ghosts: {
      events: 1,
      search: {
        noticedAt: new Date(4000),
        from: new Date(1000),
        done: 1,
        nextAt: new Date(5000),
        unreadable: 0,
      },
    },
    logLoss: null,
    isIncomplete: false,
    late: [
      {
        reason: { kind: 'paused', ...pause },
        sentence: 'The relay is paused',
        remedy: 'Let it go on',
      },
    ],
  }),
  pause: async ({ who, because }) => ({
    changed: true,
    pause: { by: who, since: new Date(1000), because },
    stillRelaying: [{ name: 'outbox-relay-main', holder: 'host/1', until: new Date(3000) }],
  }),
  resume: async () => ({ ended: pause }),
  resync: async (fromId, { dryRun }) => ({ dryRun, fromId, rows: 2, firstId: fromId, lastId: fromId + 1 }),
  reshard: async (shards) => ({
    from: 1,
    to: shards,
    cursor: { from: '10:10:', to: '12:12:', lastId: 7 },
    repeated: 3,
  }),
  ghosts: async () => ({
    events: 1,
    ghosts: [
      {
        eventId: '019a0000-0000-7000-8000-000000000001',
        eventType: 'loopers.product.viewed.v1',
        aggregateType: 'ProductView',
        aggregateId: 'v-1',
        aggregateVersion: 1,
        topic: 'product-view-events',
        partition: 0,
        offset: 12,
        recordedAt: new Date(3000),
        foundAt: new Date(4000),
        replacedBy: null,
      },
    ],
  }),
  dismissGhosts: async ({ dryRun }) => ({ dryRun, events: 1 }),
  useWal: async () => ({ ended: { slot: 'millrace_relay', reason: 'it is gone', since: new Date(1000) } }),
  relaying: async () => [],
};
