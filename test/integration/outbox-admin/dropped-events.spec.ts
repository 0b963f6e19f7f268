import { expect } from 'chai';
import { frameLength } from '../../../src/avro/confluent-frame.ts';
import { envelopeSchemaOf } from '../../../src/avro/envelope-schema.ts';
import { readEnvelope } from '../../../src/avro/read-envelope.ts';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { contentHash } from '../../../src/journal/content-hash.ts';
import { createOutboxAdmin, type OutboxAdmin } from '../../../src/outbox-admin/outbox-admin.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { acquireLease } from '../../../src/relay/lease.ts';
import type { OutboxRow } from '../../../src/relay/outbox-source.ts';
import { retryRelayLease } from '../../../src/relay/retry-relay.ts';
import { createRelayAdmin, type RelayAdmin } from '../../../src/relay-admin/relay-admin.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import {
  createMemoryBroker,
  type MemoryBroker,
  type ReceivedRecord,
  recordRefused,
  useRelays,
} from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { appendViews, clearHeldEvents, park } from '../../support/outbox-admin.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const forReal = { who: 'cli:ann@desk', dryRun: false };
const timeoutMs = 60_000;

describe('an event that an operator drops', function () {
  this.timeout(180_000);
  const workspace = useWorkspace();
  let db: Database;
  let outbox: OutboxAdmin;
  let relayAdmin: RelayAdmin;
  const relays = useRelays(() => db, silentLog());
  before(() => {
    db = openTestDatabase(workspace(), 10);
    outbox = createOutboxAdmin(db);
    relayAdmin = createRelayAdmin(db, {
      stallAfterMs: 5000,
      slotLagBytesMax: 1e9,
      handledRetentionMs: 7 * 86_400_000,
    });
  });
  beforeEach(() => clearHeldEvents(db));

  const textOf = ({ value }: ReceivedRecord): string => {
    const { type } = envelopeSchemaOf('ProductViewed');
    const { aggregateId, aggregateVersion } = readEnvelope(type, value ?? Buffer.alloc(0), frameLength);
    return `${aggregateId}@${aggregateVersion}`;
  };
  const published = ({ values }: MemoryBroker): string[] =>
    values.map((value) => textOf({ key: null, value }));
  const refuse =
    (event: string) =>
    (records: readonly ReceivedRecord[]): void => {
      if (records.map(textOf).includes(event)) throw recordRefused();
    };
  const heldIds = async (): Promise<readonly number[]> =>
    (await outbox.failed({ limit: 99 })).map(({ id }) => id);
  const first = (rows: readonly OutboxRow[]): OutboxRow => {
    const [row] = rows;
    if (!row) throw new Error('no row');
    return row;
  };

  describe('stays dropped', () => {
    /** Two events of which the first one is refused for good; the operator drops it, and the second one gets through. */
    const dropFirst = async (name: string, broker: MemoryBroker): Promise<OutboxRow> => {
      broker.setMood(refuse(`${name}@1`));
      const row = first(await appendViews(db, name, { count: 2 }));
      await eventually(async () => expect(await heldIds()).to.have.length(2), { timeoutMs });
      expect(await outbox.drop({ outboxId: row.id }, forReal)).to.have.property('outcome', 'dropped');
      broker.setMood(() => {});
      const retrying = relays.startRetry('x', broker);
      await eventually(() => expect(published(broker).at(-1)).to.equal(`${name}@2`), { timeoutMs });
      await eventually(async () => expect(await heldIds()).to.deep.equal([]), { timeoutMs });
      await retrying.stop();
      return row;
    };
    const goesOnWith = async (name: string, broker: MemoryBroker): Promise<void> => {
      await appendViews(db, name, { count: 1, after: 2 });
      await eventually(() => expect(published(broker).at(-1)).to.equal(`${name}@3`), { timeoutMs });
    };

    it('when everything is published again after a resync', async () => {
      const broker = createMemoryBroker();
      const relay = relays.startMain('x', broker);
      const row = await dropFirst('again-1', broker);
      await relay.stop();
      await relayAdmin.resync(row.id, forReal);
      relays.startMain('x', broker);
      await goesOnWith('again-1', broker);
      expect(published(broker)).to.deep.equal(['again-1@2', 'again-1@2', 'again-1@3']);
      expect(await outbox.show({ outboxId: row.id })).to.include({ state: 'dropped' });
    });

    it('when the number of shards changes and some of it is published again', async () => {
      await relayAdmin.reshard(2, forReal);
      const broker = createMemoryBroker();
      const sharded = relays.startShards('x', broker);
      await dropFirst('again-2', broker);
      await sharded.stop();
      // One of the two has not got anywhere yet, so that the new ones begin where it is.
      await db.execute({
        name: 'spec-slow-shard',
        text: `update outbox_cursor set from_snapshot = '1:1:', to_snapshot = '1:1:', last_id = 0
               where shards = 2 and shard <> outbox_shard('again-2', 2)`,
      });
      const { repeated } = await relayAdmin.reshard(1, forReal);
      expect(repeated).to.be.greaterThan(0);
      relays.startMain('x', broker);
      await goesOnWith('again-2', broker);
      expect(published(broker).filter((event) => event.startsWith('again-2'))).to.deep.equal([
        'again-2@2',
        'again-2@2',
        'again-2@3',
      ]);
    });

    it('when what is wrong with it would be found again', async () => {
      const broker = createMemoryBroker();
      const relay = relays.startMain('x', broker);
      const unknown = { ...viewOf('again-4', 1), schemaFingerprint: Buffer.alloc(32, 9) };
      await appendEvents(db, [{ ...unknown, contentHash: contentHash(unknown) }]);
      await eventually(async () => expect(await heldIds()).to.have.length(1), { timeoutMs });
      const [id = 0] = await heldIds();
      expect(await outbox.drop({ outboxId: id }, forReal)).to.have.property('outcome', 'dropped');
      await relay.stop();
      await relayAdmin.resync(id, forReal);
      relays.startMain('x', broker);
      await appendViews(db, 'again-4', { count: 1, after: 1 });
      await eventually(() => expect(published(broker)).to.deep.equal(['again-4@2']), { timeoutMs });
      expect(await heldIds()).to.deep.equal([]);
    });

    it('when a page that was read before stores it once more, together with those behind it', async () => {
      const rows = await appendViews(db, 'again-3', { count: 2 });
      await park(db, rows, { dead: false });
      await outbox.drop({ outboxId: first(rows).id }, forReal);
      await park(db, rows, { dead: false });
      expect(await heldIds()).to.deep.equal(rows.slice(1).map(({ id }) => id));
    });
  });

  describe('while it is being retried', () => {
    it('is not dropped until that has an outcome, so that no later event overtakes it', async () => {
      const broker = createMemoryBroker();
      broker.setMood(refuse('flying-1@1'));
      relays.startMain('x', broker);
      const row = first(await appendViews(db, 'flying-1', { count: 1 }));
      await eventually(async () => expect(await heldIds()).to.deep.equal([row.id]), { timeoutMs });

      const onItsWay = Promise.withResolvers<void>();
      const arrival = Promise.withResolvers<void>();
      broker.setMood(async (records) => {
        if (!records.map(textOf).includes('flying-1@1')) return;
        onItsWay.resolve();
        await arrival.promise;
      });
      relays.startRetry('x', broker);
      await onItsWay.promise;
      const outcome = await outbox.drop({ outboxId: row.id }, forReal);
      await appendViews(db, 'flying-1', { count: 1, after: 1 });
      await appendViews(db, 'other-1', { count: 1 });
      await eventually(() => expect(published(broker)).to.include('other-1@1'), { timeoutMs });
      arrival.resolve();
      const both = ['flying-1@1', 'flying-1@2'];
      await eventually(() => expect(published(broker)).to.include.members(both), { timeoutMs });
      expect(published(broker).filter((event) => both.includes(event))).to.deep.equal(both);
      expect(outcome).to.deep.include({ outcome: 'being-retried' });
      expect(await outbox.drop({ outboxId: row.id }, forReal)).to.deep.equal({ outcome: 'not-held' });
    });

    it('can be dropped between two tries, and once the process that tried it is gone', async () => {
      const broker = createMemoryBroker();
      const hourMs = 3_600_000;
      broker.setMood(() => {
        throw recordRefused();
      });
      const rows = await appendViews(db, 'between-1', { count: 1 });
      await park(db, rows, { dead: false });
      const retrying = relays.startRetry('x', broker, { backoffBaseMs: hourMs, backoffMaxMs: hourMs });
      await eventually(async () => {
        const [event] = await outbox.failed({ limit: 9 });
        expect(event).to.include({ attempts: 1 });
        const asked = await outbox.drop({ outboxId: first(rows).id }, { ...forReal, dryRun: true });
        expect(asked).to.have.property('outcome', 'would-drop');
      });
      await retrying.stop();

      const fatal = await appendViews(db, 'between-2', { count: 1 });
      await park(db, fatal, { dead: false });
      const claimed = Promise.withResolvers<void>();
      const never = Promise.withResolvers<void>();
      broker.setMood(() => {
        claimed.resolve();
        return never.promise;
      });
      relays.startRetry('dies', broker);
      await claimed.promise;
      const drop = () => outbox.drop({ outboxId: first(fatal).id }, { ...forReal, dryRun: true });
      expect(await drop()).to.have.property('outcome', 'being-retried');
      const runOut = { name: 'spec-run-out', text: `update scheduler_lock set locked_until = now()` };
      await db.execute(runOut);
      expect(await drop(), 'nobody else is there').to.have.property('outcome', 'would-drop');
      await acquireLease(db, { name: retryRelayLease, holder: 'the next one', holdMs: 60_000 });
      expect(await drop(), 'another one is there').to.have.property('outcome', 'would-drop');
      never.resolve();
    });
  });
});
