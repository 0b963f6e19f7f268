import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { appendEvents } from '../../src/journal/append-events.ts';
import type { Database } from '../../src/postgres/database.ts';
import { eventually } from '../support/eventually.ts';
import { usePostgresPair } from '../support/postgres-pair.ts';
import { useRelayScene } from '../support/relay-scene.ts';
import { eventOf } from '../support/write-aggregates.ts';

/** PROMOTIONS=10 for the long run. */
const promotions = Number(process.env.PROMOTIONS ?? 2);
const aggregates = Array.from({ length: 10 }, (_, index) => `p-${index}${index % 2 === 0 ? '-stock' : ''}`);
const patience = { timeoutMs: 120_000 };

const versionStatement = {
  name: 'spec-newest-version',
  text: 'select coalesce(max(aggregate_version), 0) + 1 as next from outbox where aggregate_id = $1',
};

/** Writers that lose their server now and then, and go on with what its successor has. */
const startWriters = (db: () => Database) => {
  let isOver = false;
  let committed = 0;
  const writing = Promise.all(
    aggregates.map(async (aggregateId) => {
      while (!isOver) {
        try {
          const [row] = await db().execute<{ next: number }>(versionStatement, [aggregateId]);
          await appendEvents(db(), [eventOf(aggregateId, row?.next ?? 1)]);
          committed += 1;
        } catch {
          // Whether it was committed or not, the next version is asked for.
        }
        await sleep(20);
      }
    }),
  );
  return {
    committed: () => committed,
    stop: async (): Promise<void> => {
      isOver = true;
      await writing;
    },
  };
};

for (const source of ['cursor', 'wal'] as const) {
  describe(`a standby that is promoted while the relay publishes (${source})`, function () {
    this.timeout(600_000 + promotions * 60_000);
    const pair = usePostgresPair();
    const { database, relays, judge } = useRelayScene({
      endpoints: () => ({ databaseUrl: pair().databaseUrl }),
    });

    it('has all of its events in Kafka, in order, whatever it lacks of the old primary', async () => {
      const relay = await relays.start({ RELAY_SOURCE: source, RELAY_PUBLISH_TIMEOUT_MS: '120000' });
      const writers = startWriters(database);
      try {
        for (let round = 0; round < promotions; round++) {
          const { kafka } = relay;
          const acknowledgedBefore = kafka.acknowledged();
          await eventually(
            () => expect(kafka.acknowledged()).to.be.greaterThan(acknowledgedBefore),
            patience,
          );
          pair().holdReplication();
          // The new primary will lack these pages and the events in them.
          const held = kafka.acknowledged();
          await eventually(() => expect(kafka.acknowledged()).to.be.greaterThan(held + 2), patience);
          const released = Promise.withResolvers<void>();
          let isOnItsWay = false;
          kafka.hooks.onAcknowledgement = () => {
            isOnItsWay = true;
            return released.promise;
          };
          await eventually(() => expect(isOnItsWay).to.equal(true), patience);
          await pair().promote();
          const committed = writers.committed();
          await eventually(() => expect(writers.committed()).to.be.greaterThan(committed + 30), patience);
          kafka.heal();
          released.resolve();
          await pair().addStandby();
        }
      } finally {
        await writers.stop();
      }
      const ghosts = /was never committed$/;
      const final = await eventually(
        async () => {
          const { missing, held, violations } = await judge().verdict();
          expect({ missing: missing.length, held: held.length }).to.deep.equal({ missing: 0, held: 0 });
          return violations;
        },
        { ...patience, what: 'every event of the new primary is in Kafka' },
      );
      expect(final.filter((violation) => !ghosts.test(violation))).to.deep.equal([]);
      // Without them the promotions would have proved nothing.
      expect(final.filter((violation) => ghosts.test(violation)).length).to.be.greaterThan(0);
      expect(await relay.stop(), relay.stderr()).to.equal(0);
    });
  });
}
