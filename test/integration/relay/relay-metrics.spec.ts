import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { createMetricRegistry } from '../../../src/metrics/metric-registry.ts';
import { measureRelay } from '../../../src/metrics/relay-metrics.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { acquireLease } from '../../../src/relay/lease.ts';
import { mainRelayLease } from '../../../src/relay/shard.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { brokerTrouble, createMemoryBroker, recordRefused, useRelays } from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

/** That the relay says it where it happens; what the figures look like is said elsewhere. */
describe('metrics of a relay at work', () => {
  const workspace = useWorkspace();
  const metrics = createMetricRegistry();
  let db: Database;
  const relays = useRelays(() => db, silentLog(), measureRelay(metrics));
  before(() => {
    db = openTestDatabase(workspace(), 8);
  });
  const figure = async (name: string): Promise<number | undefined> => {
    const { text } = await metrics.scrape();
    const line = text.split('\n').find((candidate) => candidate.startsWith(`${name} `));
    return line === undefined ? undefined : Number(line.slice(name.length));
  };
  const eventuallyIs = (name: string, value: number) =>
    eventually(async () => expect(await figure(name), name).to.equal(value));

  it('count what got through, what did not, and each later try', async () => {
    const broker = createMemoryBroker();
    broker.setMood((records) => {
      if (records.some(({ key }) => String(key) === 'bad')) throw recordRefused();
    });
    await appendEvents(db, [viewOf('good', 1), viewOf('bad', 1), viewOf('bad', 2), viewOf('good', 2)]);
    relays.startMain('a', broker);
    relays.startRetry('a', broker);
    await eventuallyIs('millrace_relay_published_events_total{topic="product-view-events"}', 2);
    await eventuallyIs('millrace_relay_failed_events_total', 1);
    await eventuallyIs('millrace_relay_retries_total{outcome="failed"}', 3);
    expect(await figure('millrace_relay_commit_to_publish_seconds_count')).to.equal(2);
    expect(await figure('millrace_relay_page_events_bucket{le="10"}')).to.be.at.least(1);
    expect(await figure('millrace_relay_integrity_failures_total')).to.equal(0);

    broker.setMood(() => {});
    await db.execute({
      name: 'spec-retry',
      text: 'update outbox_failed set dead_at = null, retry_count = 0, next_retry_at = clock_timestamp()',
    });
    await eventuallyIs('millrace_relay_retries_total{outcome="sent"}', 2);
    await eventuallyIs('millrace_relay_published_events_total{topic="product-view-events"}', 4);
  });

  it('count a payload that somebody changed', async () => {
    await db.transaction(async (tx) => {
      await appendEvents(tx, [viewOf('changed', 1)]);
      for (const text of [
        'alter table outbox disable trigger outbox_is_append_only',
        `update outbox set payload = '\\x00' where aggregate_id = 'changed'`,
        'alter table outbox enable trigger outbox_is_append_only',
      ]) {
        await tx.execute({ name: `spec-${text.slice(0, 30)}`, text });
      }
    });
    relays.startMain('a', createMemoryBroker());
    await eventuallyIs('millrace_relay_integrity_failures_total', 1);
  });

  it('tell who has the lease, whose lease ran out, and who is in trouble', async () => {
    const held = `millrace_relay_lease_held{lease="${mainRelayLease}"}`;
    const troubled = `millrace_relay_troubled{lease="${mainRelayLease}"}`;
    await acquireLease(db, { name: mainRelayLease, holder: 'killed', holdMs: 1 });
    const broker = createMemoryBroker();
    broker.setMood(() => {
      throw brokerTrouble();
    });
    const relay = relays.startMain('a', broker);
    await eventuallyIs(held, 1);
    expect(await figure(`millrace_relay_stalled_recoveries_total{lease="${mainRelayLease}"}`)).to.equal(1);
    await appendEvents(db, [viewOf('later', 1)]);
    await eventuallyIs(troubled, 1);
    broker.setMood(() => {});
    await eventuallyIs(troubled, 0);
    await relay.stop();
    expect(await figure(held)).to.equal(0);
  });
});
