import { expect } from 'chai';
import { describeReason } from '../../../src/relay/stall/describe-reason.ts';
import { explainStall } from '../../../src/relay/stall/explain-stall.ts';
import type { LongTransaction } from '../../../src/relay/stall/read-holding-sessions.ts';
import type { RelayProcess } from '../../../src/relay/stall/read-relay-processes.ts';
import type { StallFacts, StallShard } from '../../../src/relay/stall/read-stall-facts.ts';
import { identityOf, type StallReason } from '../../../src/relay/stall/stall-reason.ts';
import { createStallTeller } from '../../../src/relay/stall/watch-stalls.ts';
import { recordingLog } from '../../support/silent-log.ts';

const now = new Date('2026-03-01T12:00:00Z');
const ago = (seconds: number): Date => new Date(now.getTime() - seconds * 1000);
const settings = { stallAfterMs: 5000, slotLagBytesMax: 1_000_000 };

const lease = { name: 'outbox-relay-main', holder: 'host/1', until: ago(-20) };
const shard: StallShard = {
  number: 1,
  of: 1,
  position: { from: '10:10:', to: '10:10:', lastId: 0, restoredLastId: null },
  isForeign: false,
  movedAt: ago(60),
  pending: 3,
  overdue: 0,
  oldestPendingAt: ago(30),
  now,
  lease,
};
const relay: RelayProcess = {
  name: 'host/1',
  startedAt: ago(600),
  isAlive: true,
  circuit: 'closed',
  circuitSince: ago(600),
  troubles: [],
};
const facts: StallFacts = {
  now,
  pause: null,
  shards: [shard],
  relays: [relay],
  parked: { refused: [], single: null },
  transactions: [],
  slot: null,
  isIncomplete: false,
};
const transaction = (effect: LongTransaction['effect']): LongTransaction => ({
  kind: 'long-transaction',
  effect,
  session: {
    pid: 4711,
    user: 'ann',
    application: 'psql',
    state: 'idle in transaction',
    transactionSince: ago(100),
    querySince: ago(90),
    query: 'lock table outbox_failed',
  },
});
const slot = {
  slot: 'millrace_relay',
  walStatus: 'reserved' as const,
  active: true,
  activePid: 1,
  lagBytes: 10,
  confirmedLsn: 0n,
};
const single = {
  oldestAt: ago(50),
  events: 3,
  aggregates: 2,
  first: {
    id: 9,
    aggregateType: 'Order',
    aggregateId: 'o-1',
    dead: true,
    attempts: 10,
    lastError: 'too large',
  },
};

const parked = { refused: [], single };
const missingTopic = {
  oldestAt: ago(6),
  events: 12,
  aggregates: 3,
  dead: 0,
  refusal: { kind: 'topic', topic: 'order-events', refusal: 'missing' },
} as const;
const refusedSchema = {
  oldestAt: ago(6),
  events: 1,
  aggregates: 1,
  dead: 1,
  refusal: {
    kind: 'schema',
    eventType: 'loopers.order.created.v1',
    subject: 's',
    reasons: 'total (removed)',
  },
} as const;

const kinds = (changed: Partial<StallFacts>): readonly string[] =>
  explainStall({ ...facts, ...changed }, settings).map((reason) =>
    reason.kind === 'long-transaction' ? reason.effect : reason.kind,
  );

describe('why events are late', () => {
  it('is not asked while they are on time', () => {
    const onTime = { ...shard, oldestPendingAt: ago(4) };
    const idle = { ...shard, pending: 0, oldestPendingAt: null };
    const pause = { by: 'ann', since: ago(100), because: null };
    expect(kinds({ shards: [onTime], relays: [] })).to.deep.equal([]);
    expect(kinds({ shards: [idle], pause, relays: [] })).to.deep.equal([]);
    expect(
      kinds({
        shards: [idle],
        parked: { refused: [{ ...missingTopic, oldestAt: ago(4) }], single: { ...single, oldestAt: ago(1) } },
      }),
    ).to.deep.equal([]);
  });

  it('is the pause and nothing that follows from it', () => {
    const pause = { by: 'ann', since: ago(100), because: 'broker upgrade' };
    const shards = [{ ...shard, lease: null }];
    expect(explainStall({ ...facts, pause, shards }, settings)).to.deep.equal([{ kind: 'paused', ...pause }]);
  });

  it('is a position of another server, whatever that one says is pending', () => {
    expect(kinds({ shards: [{ ...shard, isForeign: true, oldestPendingAt: null }] })).to.deep.equal([
      'foreign-cursor',
    ]);
  });

  it('is that nobody relays, or that those who could do not', () => {
    const shards = [{ ...shard, lease: null }];
    expect(kinds({ shards, relays: [] })).to.deep.equal(['no-relay']);
    expect(kinds({ shards })).to.deep.equal(['without-owner']);
  });

  it('is the shard without an owner, by its number', () => {
    const shards = [
      { ...shard, of: 3, pending: 0, oldestPendingAt: null, lease: null },
      { ...shard, number: 2, of: 3, lease: null },
      { ...shard, number: 3, of: 3, movedAt: ago(1) },
    ];
    expect(explainStall({ ...facts, shards }, settings)[0]).to.deep.equal({
      kind: 'without-owner',
      shards: [2],
      of: 3,
      relays: 1,
    });
  });

  it('is the circuit, with the last error of the relay that has it open', () => {
    const troubles = [{ lease: lease.name, since: ago(40), error: 'connect ECONNREFUSED' }];
    const relays = [{ ...relay, circuit: 'open' as const, circuitSince: ago(20), troubles }];
    expect(explainStall({ ...facts, relays }, settings)).to.deep.equal([
      { kind: 'circuit-open', relay: 'host/1', since: ago(20), lastError: 'connect ECONNREFUSED' },
    ]);
  });

  it('is not a circuit that is being tried and gives no trouble', () => {
    const relays = [{ ...relay, circuit: 'half-open' as const }];
    expect(kinds({ relays, shards: [{ ...shard, movedAt: ago(1) }] })).to.deep.equal(['behind']);
  });

  it('is what the relay complains of', () => {
    const troubles = [{ lease: lease.name, since: ago(40), error: 'the registry does not answer' }];
    expect(explainStall({ ...facts, relays: [{ ...relay, troubles }] }, settings)).to.deep.equal([
      { kind: 'relay-trouble', relay: 'host/1', ...troubles[0] },
    ]);
  });

  it('is whoever holds what the relay waits for', () => {
    expect(kinds({ transactions: [transaction('relay-waits-for-lock')] })).to.deep.equal([
      'relay-waits-for-lock',
    ]);
    expect(kinds({ transactions: [transaction('slot-waits')] })).to.deep.equal(['slot-waits']);
  });

  it('is a writer that does not end, though nobody sees its events yet', () => {
    const idle = { ...shard, pending: 0, oldestPendingAt: null };
    expect(kinds({ shards: [idle], transactions: [transaction('its-events-wait')] })).to.deep.equal([
      'its-events-wait',
    ]);
  });

  it('is an event in front of others, though the relay is past it', () => {
    const idle = { ...shard, pending: 0, oldestPendingAt: null };
    expect(kinds({ shards: [idle], parked })).to.deep.equal(['parked']);
    expect(kinds({ parked })).to.deep.equal(['holder-silent', 'parked']);
  });

  it('is a topic and a schema that are refused, each by its name, beside what else did not get through', () => {
    const idle = { ...shard, pending: 0, oldestPendingAt: null };
    const reasons = explainStall(
      { ...facts, shards: [idle], parked: { refused: [missingTopic, refusedSchema], single } },
      settings,
    );
    expect(reasons.map(({ kind }) => kind)).to.deep.equal(['topic-refused', 'schema-refused', 'parked']);
    expect(reasons.slice(0, 2)).to.deep.equal([everyReason['topic-refused'], everyReason['schema-refused']]);
  });

  it('is the slot: lost, read by nobody, or far behind', () => {
    expect(kinds({ slot: { ...slot, walStatus: 'lost' } })).to.deep.equal(['slot-lost']);
    expect(kinds({ slot: { ...slot, walStatus: 'missing', active: false } })).to.deep.equal(['slot-lost']);
    expect(kinds({ slot: { ...slot, active: false } })).to.deep.equal(['slot-inactive']);
    const idle = { ...shard, pending: 0, oldestPendingAt: null };
    expect(kinds({ shards: [idle], slot: { ...slot, lagBytes: 2_000_000 } })).to.deep.equal(['slot-lagging']);
    expect(kinds({ slot })).to.deep.equal(['holder-silent']);
  });

  it('is only that there is much to do, as long as it goes on', () => {
    const shards = [
      { ...shard, of: 2, movedAt: ago(3), pending: 10 },
      { ...shard, number: 2, of: 2, movedAt: ago(1), pending: 5 },
    ];
    expect(explainStall({ ...facts, shards }, settings)).to.deep.equal([
      { kind: 'behind', pending: 15, movedAt: ago(1) },
    ]);
  });

  it('is the holder of the lease when nothing else is to be found', () => {
    expect(explainStall(facts, settings)).to.deep.equal([
      {
        kind: 'holder-silent',
        lease: 'outbox-relay-main',
        holder: 'host/1',
        until: lease.until,
        movedAt: ago(60),
      },
    ]);
  });
});

const everyReason: { readonly [Kind in StallReason['kind']]: Extract<StallReason, { kind: Kind }> } = {
  paused: { kind: 'paused', by: 'cli:ann@host', since: ago(10), because: 'broker upgrade' },
  'foreign-cursor': { kind: 'foreign-cursor' },
  'no-relay': { kind: 'no-relay' },
  'without-owner': { kind: 'without-owner', shards: [2, 3], of: 4, relays: 1 },
  'holder-silent': { kind: 'holder-silent', lease: 'l', holder: 'host/1', until: now, movedAt: null },
  'circuit-open': { kind: 'circuit-open', relay: 'host/1', since: ago(10), lastError: 'refused' },
  'relay-trouble': {
    kind: 'relay-trouble',
    relay: 'host/1',
    lease: 'l',
    since: ago(10),
    error: 'no registry',
  },
  parked: { kind: 'parked', aggregates: 2, events: 3, first: single.first },
  'topic-refused': {
    kind: 'topic-refused',
    topic: 'order-events',
    refusal: 'missing',
    events: 12,
    aggregates: 3,
    dead: 0,
  },
  'schema-refused': {
    kind: 'schema-refused',
    eventType: 'loopers.order.created.v1',
    subject: 's',
    reasons: 'total (removed)',
    events: 1,
    aggregates: 1,
    dead: 1,
  },
  'long-transaction': transaction('relay-waits-for-lock'),
  'slot-lost': { kind: 'slot-lost', slot: 's' },
  'slot-inactive': { kind: 'slot-inactive', slot: 's', lagBytes: 1_500_000 },
  'slot-lagging': { kind: 'slot-lagging', slot: 's', lagBytes: 2_000_000_000 },
  behind: { kind: 'behind', pending: 15, movedAt: ago(1) },
};

describe('a reason in words', () => {
  const inWords = (kind: StallReason['kind']): string => {
    const { sentence, remedy } = describeReason(everyReason[kind]);
    return `${sentence}. ${remedy}.`;
  };

  it('says what is, with the figures that matter, and what to do', () => {
    expect(inWords('paused')).to.equal(
      'The relay is paused since 2026-03-01T11:59:50.000Z by cli:ann@host: broker upgrade. Let it go on with npx millrace relay resume.',
    );
    expect(inWords('without-owner')).to.match(/^Nobody relays shard 2, 3 of 4, though 1 relay is alive/);
    expect(inWords('long-transaction')).to.equal(
      'Process 4711 of ann (psql, idle in transaction, in a transaction since 2026-03-01T11:58:20.000Z, query of 2026-03-01T11:58:30.000Z: lock table outbox_failed) holds a lock that the relay waits for. End it with select pg_terminate_backend(4711), and find out why psql leaves transactions open.',
    );
    expect(inWords('parked')).to.match(/3 events of 2 aggregates .* event 9 of Order\/o-1, dead: too large/);
    expect(inWords('topic-refused')).to.equal(
      'Topic order-events does not exist: 12 events wait. Create it with npx millrace topics apply. Then they follow by themselves, or at once with npx millrace outbox retry --all.',
    );
    expect(inWords('schema-refused')).to.equal(
      'The registry refuses the schema of loopers.order.created.v1 (subject s): total (removed); 1 event waits. See what is wrong and how to do it instead with npx millrace schemas check. Then bring the dead ones back with npx millrace outbox retry --all.',
    );
    expect(inWords('slot-inactive')).to.match(/1.5 MB of log/);
    expect(inWords('slot-lagging')).to.match(/2 GB/);
  });

  it('is there for every kind, and goes by one name whatever its figures are', () => {
    const reasons = Object.values(everyReason);
    expect(new Set(reasons.map(identityOf)).size).to.equal(reasons.length);
    for (const reason of reasons) {
      expect(describeReason(reason).sentence, reason.kind).to.match(/^\w.{20,}[^.]$/s);
      expect(describeReason(reason).remedy, reason.kind).to.match(/^[A-Z].{10,}[^.]$/s);
    }
    expect(identityOf({ ...everyReason.behind, pending: 16 })).to.equal(identityOf(everyReason.behind));
    expect(identityOf({ ...everyReason.parked, events: 4 })).to.equal(identityOf(everyReason.parked));
  });
});

describe('what the log says of late events', () => {
  const { log, lines } = recordingLog();
  let teller: ReturnType<typeof createStallTeller>;
  beforeEach(() => {
    lines.length = 0;
    teller = createStallTeller(log);
  });
  const told = () => lines.map(({ level, msg }) => `${level} ${msg.split(':')[0]}`);

  it('is said once per change, and once when it is over', () => {
    const { behind, paused } = everyReason;
    teller.tell([], facts);
    teller.tell([behind], facts);
    teller.tell([{ ...behind, pending: 99 }], facts);
    teller.tell([paused], facts);
    teller.tell([paused], facts);
    for (let look = 0; look < 3; look++) teller.tell([], facts);
    teller.tell([behind], facts);
    expect(told()).to.deep.equal([
      '40 Events are late',
      '40 Events are late',
      '40 Events are on time again',
      '40 Events are late',
    ]);
  });

  it('does not say of every look that it is just over or just begins', () => {
    for (let look = 0; look < 5; look++) {
      teller.tell([everyReason.behind], facts);
      teller.tell([], facts);
    }
    expect(told()).to.deep.equal(['40 Events are late']);
  });

  it('is an error, once, when many wait for long', () => {
    const overdue = { ...facts, shards: [{ ...shard, overdue: 101 }] };
    teller.tell([everyReason.behind], overdue);
    teller.tell([everyReason.behind], overdue);
    teller.tell([everyReason.behind], facts);
    teller.tell([everyReason.behind], overdue);
    expect(told()).to.deep.equal([
      '40 Events are late',
      '50 101 events wait for more than 5 minutes',
      '50 101 events wait for more than 5 minutes',
    ]);
  });

  it('is left to the process that watches, and begins anew with the next one', () => {
    teller.tell([everyReason.behind], facts);
    teller.forget();
    teller.tell([], facts);
    teller.tell([], facts);
    teller.tell([everyReason.behind], facts);
    expect(told()).to.deep.equal(['40 Events are late', '40 Events are late']);
  });
});
