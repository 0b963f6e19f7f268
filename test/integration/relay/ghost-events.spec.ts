import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { type Adapters, openAdapters } from '../../../src/app/adapters.ts';
import { ghostSearchOf } from '../../../src/app/ghost-search.ts';
import { prepareBroker } from '../../../src/app/prepare.ts';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { type SealedEvent, sealEvent } from '../../../src/journal/seal-event.ts';
import { createWriterSchemas, storeWriterSchemas } from '../../../src/journal/writer-schemas.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { findDueSearch, finishSearch, seeTimeline } from '../../../src/relay/ghosts/journal-timeline.ts';
import { type SearchPorts, searchTopics } from '../../../src/relay/ghosts/search-topics.ts';
import { type GhostWatchOptions, startGhostWatch } from '../../../src/relay/ghosts/watch-ghosts.ts';
import { readOutboxFigures } from '../../../src/relay/outbox-figures.ts';
import { createRelayAdmin, type RelayAdmin } from '../../../src/relay-admin/relay-admin.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { auditRows } from '../../support/outbox-admin.ts';
import { publishEvents } from '../../support/published-events.ts';
import { type LogLine, recordingLog, silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';
import { writeTopic } from '../../support/topic-reader.ts';

const patience = { timeoutMs: 60_000 };
const who = 'cli:ann@host';

/** An event that a stream derives; derived again it has the same id. */
const derived = (eventId: string): SealedEvent =>
  sealEvent({
    eventId,
    stream: { aggregateType: 'Derived', aggregateId: eventId },
    version: 1,
    event: { type: 'RecordRekeyed', through: 'spec/step', key: 'k', value: '{}' },
    occurredAt: new Date(),
    source: 'spec',
    context: { requestId: eventId, correlationId: eventId, traceparent: null },
  });

describe('events that Kafka has and the journal has not', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let db: Database;
  let adapters: Adapters;
  let ports: SearchPorts;
  let admin: RelayAdmin;
  const watches: { stop(): Promise<void> }[] = [];
  before(async () => {
    db = openTestDatabase(workspace(), 8);
    await storeWriterSchemas(db);
    const opened = openAdapters(workspace().config, workspace().endpoints, silentLog());
    // The spec brings a database of its own.
    await opened.database.close();
    adapters = { ...opened, database: db };
    await prepareBroker(adapters, workspace().config, silentLog());
    ports = ghostSearchOf(adapters, workspace().config);
    admin = createRelayAdmin(db, {
      stallAfterMs: 60_000,
      slotLagBytesMax: 1e12,
      handledRetentionMs: 7 * 86_400_000,
    });
    // A broker that is busy takes a while to find out that it leads a new topic.
    await eventually(() => searchTopics(ports, {}), patience);
  });
  afterEach(async () => {
    for (const watch of watches.splice(0)) await watch.stop();
    // For the next test: whatever is in the topics is known.
    await searchTopics(ports, {});
    await admin.dismissGhosts({ who, dryRun: false });
  });

  const publishAt = (at: Date, ...events: readonly SealedEvent[]) =>
    publishEvents(workspace(), { registry: adapters.registry, schemas: createWriterSchemas(db) }, events, at);
  const publish = (...events: readonly SealedEvent[]) => publishAt(new Date(), ...events);
  const append = (...events: readonly SealedEvent[]) => appendEvents(db, events);
  const openGhosts = async () => (await admin.ghosts({ limit: 1000 })).ghosts;
  const idsOf = (events: readonly { eventId: string }[]) => events.map(({ eventId }) => eventId).sort();

  /** As if the journal had come here from another server, where it was last seen so long ago. */
  const comeFromElsewhere = async (seenAgoMs = 0): Promise<void> => {
    await db.execute({ name: 'spec-forget-timelines', text: 'delete from journal_timeline' });
    await db.execute(
      {
        name: 'spec-other-timeline',
        text: `
          insert into journal_timeline (system_identifier, timeline, outbox_oid, seen_at)
          select system_identifier, server_timeline() + 1, 'outbox'::regclass::oid,
                 clock_timestamp() - $1 * interval '1 millisecond'
          from pg_control_system()`,
      },
      [seenAgoMs],
    );
  };
  const settings = { intervalMs: 100, leaseMs: 60_000, marginMs: 1000, searchesAfterMs: [0, 500] };
  const watchAs = (holder: string, parts: Partial<GhostWatchOptions> = {}): LogLine[] => {
    const { log, lines } = recordingLog();
    watches.push(startGhostWatch({ ...ports, holder, settings, log, ...parts }));
    return lines;
  };
  const heard = (lines: readonly LogLine[], text: RegExp) => lines.filter(({ msg }) => text.test(msg));
  const searchIsComplete = () =>
    eventually(async () => {
      const { search } = (await admin.status()).ghosts;
      expect(search).to.include({ done: settings.searchesAfterMs.length, nextAt: null });
    }, patience);

  it('are found by a search, with what has their place now, and nothing else is', async () => {
    const kept = [viewOf('kept', 1), viewOf('kept', 2), derived(uuidv7())];
    const lost = [viewOf('lost', 1), viewOf('lost', 2)];
    const other = viewOf('lost', 1);
    await append(...kept, other);
    await publish(...kept, ...lost, ...kept);
    await writeTopic(workspace().endpoints.kafkaBrokers, workspace().unique('product-view-events'), [
      { key: 'x', value: Buffer.from('not avro') },
    ]);
    const report = await searchTopics(ports, {});
    expect(report).to.deep.equal({ records: 9, unreadable: 1, found: 2 });

    const ghosts = await openGhosts();
    expect(idsOf(ghosts)).to.deep.equal(idsOf(lost));
    const [first, second] = ghosts.toSorted((a, b) => a.aggregateVersion - b.aggregateVersion);
    expect(first).to.deep.include({
      eventType: 'loopers.product.viewed.v1',
      aggregateType: 'ProductView',
      aggregateId: 'lost',
      aggregateVersion: 1,
      topic: workspace().unique('product-view-events'),
      replacedBy: other.eventId,
    });
    expect(second).to.deep.include({ replacedBy: null });
    expect(Date.now() - (first?.recordedAt.getTime() ?? 0)).to.be.within(-60_000, 600_000);
    expect((await admin.ghosts({ limit: 1 })).events, 'also of those that are not listed').to.equal(2);
    expect(await readOutboxFigures(db)).to.include({ ghosts: 2 });
    expect((await admin.status()).ghosts).to.deep.equal({ events: 2, search: null });
  });

  it('are told until somebody dismisses them, which is audited', async () => {
    const lost = viewOf('told', 1);
    await publish(lost);
    await searchTopics(ports, {});
    expect(await admin.dismissGhosts({ who, dryRun: true })).to.deep.equal({ dryRun: true, events: 1 });
    expect(idsOf(await openGhosts())).to.deep.equal([lost.eventId]);

    expect(await admin.dismissGhosts({ who, dryRun: false })).to.deep.equal({ dryRun: false, events: 1 });
    expect((await auditRows(db)).at(-1)).to.deep.include({
      who,
      action: 'relay.dismiss-ghosts',
      target: { events: 1 },
    });
    const audited = (await auditRows(db)).length;
    expect(await admin.dismissGhosts({ who, dryRun: false })).to.include({ events: 0 });
    expect((await auditRows(db)).length, 'nothing happened').to.equal(audited);
    expect(await searchTopics(ports, {}), 'it is known').to.include({ found: 0 });
    expect(await openGhosts()).to.deep.equal([]);
  });

  it('are none whose transaction has not ended, as a relay that reads the log publishes them', async () => {
    const event = viewOf('committing', 1);
    let searching: Promise<unknown> | undefined;
    let isOver = false;
    await db.transaction(async (tx) => {
      await appendEvents(tx, [event]);
      await publish(event);
      searching = searchTopics(ports, {}).finally(() => {
        isOver = true;
      });
      // It has got to the point where only this transaction keeps it.
      await eventually(async () => {
        const rows = await db.execute<{ query: string }>({
          name: 'spec-waiting-search',
          text: `select query from pg_stat_activity where query like '%RowExclusiveLock%' and pid <> pg_backend_pid()`,
        });
        expect(rows).not.to.have.length(0);
      }, patience);
      expect(isOver).to.equal(false);
    });
    expect(await searching).to.include({ found: 0 });
    expect(await openGhosts()).to.deep.equal([]);
  });

  it('are looked for when the journal is found on another server, from when it was last seen there', async () => {
    const longBefore = viewOf('watched', 1);
    await publishAt(new Date(Date.now() - 60_000), longBefore);
    const lost = viewOf('watched', 2);
    const kept = viewOf('watched', 3);
    await append(kept);
    await publishAt(new Date(Date.now() - 5000), lost, kept);
    await comeFromElsewhere(30_000);
    const lines = ['a', 'b'].map((holder) => watchAs(holder));
    await searchIsComplete();
    expect(idsOf(await openGhosts())).to.deep.equal([lost.eventId]);
    await eventually(
      () => expect(heard(lines.flat(), /looked up in the journal/)).to.have.length(1),
      patience,
    );
    expect(heard(lines.flat(), /on another server or timeline/), 'told once, by one').to.have.length(1);
    const [told, ...others] = heard(lines.flat(), /has 1 events that the journal does not have/);
    expect(others).to.deep.equal([]);
    expect(told).to.include({ level: 50, found: 1, open: 1 });
    expect(told?.msg).to.match(/npx millrace relay ghosts/);
  });

  it('are looked for again a while later: a relay on the old server may publish more', async () => {
    await comeFromElsewhere();
    watchAs('a', { settings: { ...settings, searchesAfterMs: [0, 3_600_000] } });
    await eventually(async () => expect((await admin.status()).ghosts.search?.done).to.equal(1), patience);
    const late = viewOf('zombie', 1);
    await publish(late);
    await db.execute({
      name: 'spec-let-time-pass',
      text: 'update journal_timeline set next_search_at = clock_timestamp() where next_search_at is not null',
    });
    await eventually(async () => expect(idsOf(await openGhosts())).to.deep.equal([late.eventId]), patience);
  });

  it('are looked for from the start again when a search was broken off, by another process', async () => {
    const lost = viewOf('broken-off', 1);
    await publish(lost);
    await comeFromElsewhere(30_000);
    const lines = watchAs('a', { openReader: () => Promise.reject(new Error('connect ECONNREFUSED')) });
    await eventually(() => expect(heard(lines, /could not be searched/)).to.have.length(1), patience);
    expect((await admin.status()).ghosts.search).to.include({ done: 0 });
    await watches.shift()?.stop();
    watchAs('b');
    await searchIsComplete();
    expect(idsOf(await openGhosts())).to.include(lost.eventId);
  });

  it('are looked for as often as intended when two processes happen to do the same search', async () => {
    await comeFromElsewhere();
    await seeTimeline(db, settings);
    const due = await findDueSearch(db);
    if (!due) throw new Error('A search is due');
    const outcome = { unreadable: 0, nextAfterMs: 3_600_000 };
    await finishSearch(db, due, outcome);
    await finishSearch(db, due, outcome);
    expect((await admin.status()).ghosts.search).to.include({ done: 1 });
  });

  it('are none any more when a stream has derived them again', async () => {
    const event = derived(uuidv7());
    await publish(event);
    await searchTopics(ports, {});
    expect(idsOf(await openGhosts())).to.deep.equal([event.eventId]);
    await append(event);
    expect(await openGhosts()).to.deep.equal([]);
    watchAs('a');
    await eventually(async () => expect((await admin.status()).ghosts.events).to.equal(0), patience);
  });

  it('are not looked for while the journal is where it was', async () => {
    await db.execute({ name: 'spec-forget-timelines', text: 'delete from journal_timeline' });
    const lines = watchAs('a');
    const seen = async () =>
      (
        await db.execute<{ seen: Date; first: Date }>({
          name: 'spec-seen',
          text: 'select seen_at as seen, noticed_at as first from journal_timeline',
        })
      )[0];
    await eventually(async () => {
      const row = await seen();
      expect((row?.seen.getTime() ?? 0) - (row?.first.getTime() ?? 0)).to.be.greaterThan(200);
    }, patience);
    expect((await admin.status()).ghosts.search).to.equal(null);
    expect(lines).to.deep.equal([]);
  });
});
