import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { withAdmin } from '../integration/infra/stack-probes.ts';
import { eventually } from '../support/eventually.ts';
import { useOwnBrokers } from '../support/own-broker.ts';
import { useRelayScene } from '../support/relay-scene.ts';

/** One round is enough for every run; `HANG_ROUNDS=5 HANG_MS=60000` is the long one. */
const rounds = Number(process.env.HANG_ROUNDS ?? 1);
const hangMs = Number(process.env.HANG_MS ?? 15_000);
const brokers = 3;
const recoveryMsMax = 10_000;
const duplicatesMax = 0.01;
/** Events that are older have not been published in time. */
const lateMs = 1000;

describe('one of three brokers that hangs', function () {
  this.timeout(600_000 + 2 * rounds * hangMs);
  const cluster = useOwnBrokers(brokers);
  const { database, relays, writers, judge } = useRelayScene({
    endpoints: () => ({ kafkaBrokers: cluster.addresses() }),
  });

  /** Age of the oldest event that is not published. */
  const lagMs = async (): Promise<number> => {
    const [row] = await database().execute<{ lagMs: number }>({
      name: 'spec-lag',
      text: `
        select coalesce(extract(epoch from clock_timestamp() - min(o.created_at)) * 1000, 0)::float8 as "lagMs"
        from outbox_position p join outbox o on not pg_visible_in_snapshot(o.tx_id, p.from_snapshot)
         and not (pg_visible_in_snapshot(o.tx_id, p.to_snapshot) and o.id <= p.last_id)`,
    });
    return row?.lagMs ?? 0;
  };
  const inTime = async (): Promise<void> => {
    expect(await lagMs()).to.be.lessThan(lateMs);
  };
  const countEvents = async (): Promise<number> => {
    const text = 'select count(*) as count from outbox';
    const [row] = await database().execute<{ count: number }>({ name: 'spec-count', text });
    return row?.count ?? 0;
  };
  const putAside = async (): Promise<number> => {
    const [row] = await database().execute<{ count: number }>({
      name: 'spec-put-aside',
      text: `select (select count(*) from outbox_failed) + (select count(*) from outbox_dead_letter) as count`,
    });
    return row?.count ?? 0;
  };

  /** Only then is it one broker of three that is missing: one that has just come back has to catch up first. */
  const allInSync = (): Promise<unknown> =>
    eventually(
      async () => {
        const others = await withAdmin(cluster.addresses(), async (admin) => {
          const { topics } = await admin.fetchTopicMetadata();
          const partitions = topics.flatMap((topic) => topic.partitions);
          return partitions.filter(({ isr }) => isr.length < brokers).length;
        });
        expect(others, 'partitions with fewer replicas in sync').to.equal(0);
      },
      { timeoutMs: 120_000 },
    );

  /** How long the relays took to get over it, and how far they were behind in the meantime. */
  const hang = async (number: number): Promise<{ recoveryMs: number; behindMsMax: number }> => {
    await allInSync();
    cluster.freeze(number);
    let behindMsMax = 0;
    for (const end = Date.now() + hangMs; Date.now() < end; await sleep(250))
      behindMsMax = Math.max(behindMsMax, await lagMs());
    cluster.thaw(number);
    const returnedAt = Date.now();
    await eventually(inTime, { timeoutMs: 120_000, what: 'published in time again' });
    return { recoveryMs: Date.now() - returnedAt, behindMsMax: Math.round(behindMsMax) };
  };

  it('costs some seconds: nothing is put aside, next to nothing comes twice, and all of it is in order', async () => {
    const both = await Promise.all(
      [1, 2].map(() =>
        relays.start({
          KAFKA_CONNECT_TIMEOUT_MS: '5000',
          RELAY_LEASE_MS: '6000',
          RELAY_BATCH_SIZE_MAX: '2000',
          RELAY_BREAKER_OPEN_MS: '5000',
          KAFKA_RETRY_DELAY_MS: '1000',
        }),
      ),
    );
    const writing = writers.start({ name: 'hang' });
    await eventually(
      async () => {
        expect(await countEvents()).to.be.greaterThan(100);
        await inTime();
      },
      { timeoutMs: 120_000 },
    );
    const figures: object[] = [];
    for (let round = 0; round < rounds; round++) {
      const figuresOfRound = await hang((round % brokers) + 1);
      figures.push({ ...figuresOfRound, putAside: await putAside() });
      expect(figuresOfRound.recoveryMs, JSON.stringify(figures)).to.be.at.most(recoveryMsMax);
      expect(await putAside()).to.equal(0);
    }
    await writing.stop();
    const { duplicates } = await judge().allAccountedFor();
    const events = await countEvents();
    const share = duplicates / events;
    if (process.env.HANG_ROUNDS)
      process.stdout.write(`${JSON.stringify({ figures, events, duplicates, share })}\n`);
    expect(share, `${duplicates} of ${events} came twice`).to.be.below(duplicatesMax);
    for (const relay of both) {
      expect(relay.child.exitCode).to.equal(null);
      const said = relay.log().map(({ msg }) => msg);
      expect(said.filter((msg) => /one by one|put aside|retried on its own/.test(msg))).to.deep.equal([]);
    }
  });
});
