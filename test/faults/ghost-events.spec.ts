import { expect } from 'chai';
import { relayAdminOf } from '../../src/app/relay-admin.ts';
import { appendEvents } from '../../src/journal/append-events.ts';
import type { SealedEvent } from '../../src/journal/seal-event.ts';
import type { RelayAdmin } from '../../src/relay-admin/relay-admin.ts';
import { environmentOf, readyUrl, runCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { viewOf } from '../support/journal.ts';
import { usePostgresPair } from '../support/postgres-pair.ts';
import type { RelayProcess } from '../support/relay-processes.ts';
import { useRelayScene } from '../support/relay-scene.ts';
import { countRecords } from '../support/topic-reader.ts';

const patience = { timeoutMs: 120_000 };

describe('events that the journal loses in a failover after they were published', function () {
  this.timeout(300_000);
  const pair = usePostgresPair();
  const { workspace, database, relays } = useRelayScene({
    endpoints: () => ({ databaseUrl: pair().databaseUrl }),
  });

  const append = (...events: readonly SealedEvent[]) => appendEvents(database(), events);
  const admin = (): RelayAdmin => relayAdminOf(database(), workspace().config);
  /** There may be more: a relay that does not know what became of a page sends it again. */
  const recordsInKafka = (count: number) =>
    eventually(async () => {
      const topic = workspace().unique('product-view-events');
      expect(await countRecords(workspace().endpoints.kafkaBrokers, [topic])).to.be.at.least(count);
    }, patience);
  const millrace = (...args: readonly string[]) => runCli(args, environmentOf(workspace()));
  const idsOf = (events: readonly { eventId: string }[]) => events.map(({ eventId }) => eventId).sort();
  const metric = async (relay: RelayProcess, name: string): Promise<number> => {
    const text = await (await fetch(`${await readyUrl(relay)}/metrics`)).text();
    return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
  };

  it('are found, told with what to do, listed and dismissed; events that survived are not among them', async () => {
    const relay = await relays.start({ METRICS_OUTBOX_INTERVAL_MS: '100' });
    const survivors = Array.from({ length: 10 }, (_, index) => viewOf('survivor', index + 1));
    await append(...survivors);
    await recordsInKafka(survivors.length);
    await pair().catchUp();

    pair().holdReplication();
    const lost = [viewOf('lost', 1), viewOf('survivor', 11), viewOf('survivor', 12)];
    await append(...lost);
    await recordsInKafka(survivors.length + lost.length);
    await pair().promote();

    // Life goes on: the new primary knows nothing of version 11.
    const replacement = viewOf('survivor', 11);
    await eventually(() => append(replacement), patience);
    await recordsInKafka(survivors.length + lost.length + 1);
    await eventually(async () => {
      const { ghosts } = await admin().ghosts({ limit: 100 });
      expect(idsOf(ghosts)).to.deep.equal(idsOf(lost));
    }, patience);
    const { ghosts } = await admin().ghosts({ limit: 100 });
    const replaced = ghosts.filter(({ replacedBy }) => replacedBy !== null);
    expect(replaced.map(({ eventId, replacedBy }) => [eventId, replacedBy])).to.deep.equal([
      [lost[1]?.eventId, replacement.eventId],
    ]);

    const lineWith = (text: RegExp) =>
      eventually(() => {
        const line = relay.log().find(({ msg }) => text.test(msg));
        if (!line) throw new Error(`no line with ${text}`);
        return line;
      }, patience);
    expect(await lineWith(/on another server or timeline \(2\)/)).to.include({ level: 40 });
    expect(await lineWith(/Kafka has 3 events that the journal does not have/)).to.include({ level: 50 });
    await eventually(
      async () => expect(await metric(relay, 'millrace_relay_ghost_events')).to.equal(3),
      patience,
    );

    const listed = await millrace('relay', 'ghosts', '--scan', '--json');
    expect(listed.code, listed.stderr).to.equal(3);
    const { events, scanned } = JSON.parse(listed.stdout);
    expect(events).to.equal(3);
    expect(scanned, 'nothing new').to.include({ unreadable: 0, found: 0 });
    expect(scanned.records).to.be.at.least(14);
    const status = await millrace('relay', 'status', '--check');
    expect(status.code).to.equal(3);
    expect(status.stdout).to.match(/GHOSTS: Kafka has 3 events that the journal does not have.*rebuild/);

    const dismissed = await millrace('relay', 'ghosts', '--dismiss');
    expect(dismissed.stdout).to.equal('3 events were dismissed.\n');
    const quiet = await millrace('relay', 'ghosts');
    expect(quiet.code, quiet.stdout).to.equal(0);
    expect((await admin().status()).ghosts).to.include({ events: 0 });
  });
});
