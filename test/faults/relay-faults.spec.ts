import { expect } from 'chai';
import { frameLength } from '../../src/avro/confluent-frame.ts';
import { envelopeSchemaOf } from '../../src/avro/envelope-schema.ts';
import { readEnvelope } from '../../src/avro/read-envelope.ts';
import { productId } from '../../src/domain/ids.ts';
import { appendEvents } from '../../src/journal/append-events.ts';
import { storeWriterSchemas } from '../../src/journal/writer-schemas.ts';
import type { Database } from '../../src/postgres/database.ts';
import { type CliProcess, environmentOf, readyUrl, startCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { sealed, viewOf } from '../support/journal.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { useWorkspace, type Workspace } from '../support/stack.ts';
import { readTopic } from '../support/topic-reader.ts';

/** Short, so that a relay that is gone is missed soon. */
const leaseMs = 1500;
const aggregates = 20;

describe('the relay under fire', function () {
  this.timeout(180_000);
  const workspace = useWorkspace();
  let space: Workspace;
  let db: Database;
  const relays: CliProcess[] = [];
  before(async () => {
    space = workspace();
    db = openTestDatabase(space, 6);
    await storeWriterSchemas(db);
  });
  afterEach(async () => {
    for (const { child, ended } of relays.splice(0)) {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
      await ended;
    }
  });

  const startRelay = async (): Promise<CliProcess> => {
    const env = {
      ...environmentOf(space),
      RELAY_LEASE_MS: String(leaseMs),
      RELAY_POLL_INTERVAL_MS: '20',
      RELAY_BATCH_SIZE_MAX: '50',
    };
    const relay = startCli(['up', '--role', 'relay'], env);
    relays.push(relay);
    await readyUrl(relay);
    return relay;
  };

  /** Versions 1 to n of some aggregates, from several writers at once, some of whom think better of it. */
  const write = async (name: string, versions: number): Promise<number> => {
    await Promise.all(
      Array.from({ length: aggregates }, async (_, index) => {
        const id = `${name}-${index}`;
        for (let version = 1; version <= versions; version++) {
          if (version % 7 === index % 7) {
            await db
              .transaction(async (tx) => {
                await appendEvents(tx, [viewOf(id, version)]);
                throw new Error('thought better of it');
              })
              .catch(() => {});
          }
          await appendEvents(db, [viewOf(id, version)]);
        }
      }),
    );
    return aggregates * versions;
  };

  const seen = async (name: string): Promise<readonly { id: string; version: number }[]> => {
    const records = await readTopic(space.endpoints.kafkaBrokers, space.unique('product-view-events'));
    const { type } = envelopeSchemaOf('ProductViewed');
    return records
      .filter(({ key }) => key?.startsWith(`${name}-`))
      .map(({ value }) => {
        if (!value) throw new Error('A record without a value');
        const { aggregateId, aggregateVersion } = readEnvelope(type, value, frameLength);
        return { id: aggregateId, version: aggregateVersion };
      });
  };

  /** Each version is seen for the first time right after the one before it; seen again is allowed. */
  const firstSightBreaks = (records: readonly { id: string; version: number }[]): readonly string[] => {
    const newest = new Map<string, number>();
    return records.flatMap(({ id, version }) => {
      const known = newest.get(id) ?? 0;
      newest.set(id, Math.max(known, version));
      return version > known + 1 ? [`${id}: ${version} after ${known}`] : [];
    });
  };

  const allArrive = async (name: string, written: number): Promise<void> => {
    await eventually(
      async () => {
        const records = await seen(name);
        const distinct = new Set(records.map(({ id, version }) => `${id}@${version}`));
        expect(distinct.size).to.equal(written);
        expect(firstSightBreaks(records)).to.deep.equal([]);
      },
      { timeoutMs: 60_000 },
    );
  };

  it('loses nothing and keeps order when it is killed again and again', async () => {
    const writing = write('killed', 60);
    for (let turn = 0; turn < 4; turn++) {
      const { child, ended } = await startRelay();
      await new Promise((resolve) => setTimeout(resolve, 200 * turn));
      child.kill('SIGKILL');
      await ended;
    }
    await startRelay();
    await allArrive('killed', await writing);
  });

  it('loses nothing and keeps order when a relay sleeps past its lease and wakes up again', async () => {
    const sleeper = await startRelay();
    const writing = write('slept', 60);
    await new Promise((resolve) => setTimeout(resolve, 150));
    sleeper.child.kill('SIGSTOP');
    await startRelay();
    await eventually(async () => expect((await seen('slept')).length).to.be.greaterThan(0));
    await new Promise((resolve) => setTimeout(resolve, leaseMs));
    sleeper.child.kill('SIGCONT');
    await allArrive('slept', await writing);
    expect(sleeper.child.exitCode, sleeper.stderr()).to.equal(null);
  });

  for (const count of [2, 4]) {
    it(`loses nothing and keeps order with ${count} relays at once, one of which relays`, async () => {
      await Promise.all(Array.from({ length: count }, startRelay));
      await allArrive(`many${count}`, await write(`many${count}`, 20));
      const active = relays.filter((relay) => relay.stderr().includes('This process relays'));
      expect(active.length).to.be.at.least(1);
    });
  }

  it('sets an event that is too large for the broker aside, with what must not overtake it, and goes on', async () => {
    const register = (id: string, name: string) =>
      sealed({ aggregateType: 'Product', aggregateId: id }, 1, {
        type: 'ProductRegistered',
        productId: productId(id),
        name,
        price: { amountMinor: 1, currency: 'EUR' },
        stock: 1,
      });
    const adjusted = (id: string) =>
      sealed({ aggregateType: 'Product', aggregateId: id }, 2, {
        type: 'StockAdjusted',
        productId: productId(id),
        delta: 1,
        reason: 'r',
        stock: 2,
      });
    await appendEvents(db, [
      register('fine-1', 'ok'),
      register('huge', 'x'.repeat(2_000_000)),
      register('fine-2', 'ok'),
    ]);
    await appendEvents(db, [adjusted('huge'), adjusted('fine-1')]);
    await startRelay();
    const failed = {
      name: 'spec-failed',
      text: 'select aggregate_id as id, aggregate_version as version from outbox_failed order by outbox_id',
    };
    await eventually(async () =>
      expect(await db.execute(failed)).to.deep.equal([
        { id: 'huge', version: 1 },
        { id: 'huge', version: 2 },
      ]),
    );
    const records = await readTopic(space.endpoints.kafkaBrokers, space.unique('stock-events'));
    expect(records.map(({ key }) => key).toSorted()).to.deep.equal(['fine-1', 'fine-1', 'fine-2']);
  });
});
