import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { partitionOfKey } from '../../../src/kafka/murmur2.ts';
import { OperatorError } from '../../../src/operator-error.ts';
import type { Database } from '../../../src/postgres/database.ts';
import type { ProjectionId } from '../../../src/streams/ports.ts';
import { openLiveBuild } from '../../../src/streams-postgres/builds/live-build.ts';
import { createPartitionGuard } from '../../../src/streams-postgres/partitions/partition-guard.ts';
import { pauseProjection } from '../../../src/streams-postgres/pauses/projection-pause.ts';
import { createPostgresStateStore } from '../../../src/streams-postgres/postgres-state-store.ts';
import { type AddPartitionsPorts, addPartitions } from '../../../src/topics-admin/add-partitions.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { auditRows } from '../../support/outbox-admin.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';
import {
  at,
  batch,
  fenced,
  move,
  newProjection,
  task,
  unique,
} from '../../support/state-store-contract/batches.ts';

const bucketMs = 10_000;
const longAgo = Math.floor(Date.now() / bucketMs) * bucketMs - 86_400_000;

const partitionOf = (key: string, partitions: number): number => {
  const bytes = Buffer.from(key);
  return partitionOfKey({ bytes, keyStart: 0, keyEnd: bytes.length }, partitions);
};
/** A key that changes its partition in this way. */
const keyThat = (before: readonly [partition: number, of: number], after: readonly [number, number]) => {
  for (let number = 0; ; number++) {
    const key = `key-${number}`;
    if (partitionOf(key, before[1]) === before[0] && partitionOf(key, after[1]) === after[0]) return key;
  }
};

describe('adding partitions', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace(), 5);
  });

  /** A projection that is live and reads one topic, with brokers and relays that are not there. */
  const scene = async (partitions: number) => {
    const topic = unique('topic');
    const projection = newProjection();
    await openLiveBuild(db, projection);
    const store = createPostgresStateStore({ database: db, appendDerived: async () => {} });
    const ends = new Map<number, number>();
    const told: string[] = [];
    let count = partitions;
    let pause: { by: string; since: Date; because: string | null } | undefined;
    const abort = new AbortController();
    const ports: AddPartitionsPorts = {
      database: db,
      relay: {
        pause: async ({ who, because }) => {
          told.push('pause');
          const changed = pause === undefined;
          pause ??= { by: who, since: new Date(), because };
          return { changed, pause, stillRelaying: [] };
        },
        resume: async () => {
          told.push('resume');
          pause = undefined;
          return { ended: null };
        },
        relaying: async () => [],
      },
      admin: {
        describe: async (topics) =>
          new Map(topics.map((name) => [name, { partitions: count, retentionMs: 1, minInsyncReplicas: 1 }])),
        addPartitions: async ([grown]) => {
          if (!grown) return;
          told.push(`add ${grown.partitions}`);
          count = grown.partitions;
        },
        ranges: async () =>
          Array.from({ length: count }, (_, partition) => ({
            partition,
            start: 0,
            end: ends.get(partition) ?? 0,
          })),
      },
      plan: [],
      projections: [{ name: projection.name, topics: [topic] }],
      partitionOf,
      who: 'cli:ann@host',
      onProgress: () => {},
      signal: abort.signal,
    };
    const add = (planned: number, options = {}) => {
      const plan = [
        { topic, partitions: planned, replicationFactor: 1, minInsyncReplicas: 1, retentionMs: 1 },
      ];
      return addPartitions({ ...ports, plan }, { dryRun: false, force: false, waitMaxMs: 50, ...options });
    };
    return {
      topic,
      projection,
      store,
      ends,
      told,
      abort,
      add,
      pauseBy: (because: string) => {
        pause = { by: 'somebody', since: new Date(), because };
      },
      alter: (changed: number) => {
        count = changed;
      },
      get count() {
        return count;
      },
    };
  };

  const due = async (
    { store }: Awaited<ReturnType<typeof scene>>,
    projection: ProjectionId,
    partition: number,
  ) =>
    (
      await store.findDue(projection, { partition, untilMs: Date.now(), statesMax: 10, states: ['windows'] })
    ).map(({ key }) => key);

  it('does not wait for a projection that is paused and behind: it says who paused it and what to do', async () => {
    const shop = await scene(3);
    const { projection, topic, ends } = shop;
    ends.set(1, 7);
    await pauseProjection(db, projection.name, { by: 'operator:ann', because: 'a bad release' });
    const refused = await shop.add(6, { waitMaxMs: 60_000 }).catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(OperatorError);
    expect((refused as OperatorError).line)
      .to.match(new RegExp(`^${projection.name} is paused by operator:ann since .* \\(a bad release\\)`))
      .and.to.contain(`${projection.name} is 7 records behind in ${topic}/1; no partition was added`)
      .and.to.contain(`Let it go on with npx millrace topologies resume ${projection.name}`);
    expect(shop.told).to.deep.equal(['pause', 'resume']);
    ends.clear();
    // With nothing left to apply it makes no difference.
    expect((await shop.add(6)).topics).to.have.length(1);
  });

  it('moves states and parked keys to where their keys live, and fences whoever was at work', async () => {
    const shop = await scene(3);
    const { store, projection, topic } = shop;
    const [moved, stays] = [keyThat([1, 3], [4, 6]), keyThat([1, 3], [1, 6])];
    const state = { name: 'windows' };
    await store.commit(
      batch(projection, {
        tasks: [task(1, undefined, 7000)],
        moves: [move(at(1, topic), undefined, 5, { streamTimeMs: 6000 })],
        states: [moved, stays].map((key) => ({
          place: at(1, topic),
          state,
          key,
          value: { key },
          dueAtMs: 1000,
        })),
        parked: [moved, stays].map((key) => ({
          ...at(1, topic),
          key,
          expectedRecords: undefined,
          parked: { sinceOffset: 3, records: 2, reason: 'planted', brokenReplay: null },
        })),
      }),
    );
    shop.ends.set(1, 5);
    const { projections } = await shop.add(6);
    expect(projections).to.have.length(1);
    expect(projections[0]).to.include({ projection: projection.name, states: 1, parkedKeys: 1 });
    expect(shop.told).to.deep.equal(['pause', 'add 6', 'resume']);

    expect(await due(shop, projection, 1)).to.deep.equal([stays]);
    expect(await due(shop, projection, 4)).to.deep.equal([moved]);
    const [old, added, other] = await store.loadPlaces(projection, [
      at(1, topic),
      at(4, topic),
      at(5, topic),
    ]);
    expect(old?.parked.map(({ key }) => key)).to.deep.equal([stays]);
    expect(added?.parked.map(({ key }) => key)).to.deep.equal([moved]);
    expect(added?.checkpoint, 'from the beginning, in the time of its keys').to.include({
      nextOffset: 0,
      streamTimeMs: 6000,
    });
    expect(added?.task).to.include({ streamTimeMs: 7000 });
    expect(other?.checkpoint).to.include({ nextOffset: 0, streamTimeMs: Number.NEGATIVE_INFINITY });
    const late = batch(projection, { tasks: [task(1, 1)], moves: [move(at(1, topic), 5, 6)] });
    expect(await store.commit(late)).to.deep.equal(fenced);
    expect((await auditRows(db)).map(({ action }) => action)).to.include('topics.add-partitions');
    expect((await shop.add(6)).topics, 'again').to.deep.equal([]);
  });

  it('lets events from before be recognised in any partition, and those from after in their own', async () => {
    const shop = await scene(3);
    const { store, projection, topic } = shop;
    const [known, later] = [uuidv7(), uuidv7()];
    const afterwards = longAgo + 10 * 86_400_000;
    await store.commit(
      batch(projection, {
        moves: [move(at(1, topic), undefined, 1)],
        handled: [{ ...at(1, topic), bucketStartMs: longAgo, ids: [known] }],
      }),
    );
    shop.ends.set(1, 1);
    await shop.add(6);
    const [place] = await store.loadPlaces(projection, [at(4, topic)]);
    await store.commit(
      batch(projection, {
        tasks: [task(4, place?.task?.commits)],
        moves: [move(at(4, topic), 0, 1)],
        handled: [{ ...at(4, topic), bucketStartMs: afterwards, ids: [later] }],
      }),
    );
    const ask = (partition: number, bucketStartMs: number) => ({ ...at(partition, topic), bucketStartMs });
    const loaded = await store.loadHandled(projection, [
      ask(4, longAgo),
      ask(1, longAgo),
      ask(4, afterwards),
      ask(1, afterwards),
    ]);
    expect(loaded).to.deep.equal([[known], [known], [later], []]);
  });

  it('keeps the latest time where keys come from any partition, so that no closed window opens again', async () => {
    const shop = await scene(2);
    const { store, projection, topic } = shop;
    await store.commit(
      batch(projection, {
        tasks: [task(0, undefined, 1000), task(1, undefined, 9000)],
        moves: [
          move(at(0, topic), undefined, 1, { streamTimeMs: 1000 }),
          move(at(1, topic), undefined, 1, { streamTimeMs: 9000 }),
        ],
      }),
    );
    for (const partition of [0, 1]) shop.ends.set(partition, 1);
    await shop.add(3);
    const places = await store.loadPlaces(projection, [at(0, topic), at(1, topic), at(2, topic)]);
    expect(places.map((place) => [place.checkpoint?.streamTimeMs, place.task?.streamTimeMs])).to.deep.equal(
      Array.from({ length: 3 }, () => [9000, 9000]),
    );
  });

  it('is refused while records are not applied, unless it is forced, and lets the relay go on', async () => {
    const shop = await scene(3);
    shop.ends.set(2, 4);
    const refusal = await shop.add(6).catch((error: Error) => error);
    expect(refusal).to.be.instanceOf(OperatorError);
    expect((refusal as OperatorError).line).to.contain(`4 records behind in ${shop.topic}/2`);
    expect(shop.told).to.deep.equal(['pause', 'resume']);
    await shop.add(6, { force: true });
    expect(shop.count).to.equal(6);
  });

  it('lets the relay go on when it is broken off, and not when somebody else has paused it', async () => {
    const shop = await scene(3);
    shop.ends.set(2, 4);
    const adding = shop.add(6, { waitMaxMs: 60_000 }).catch((error: Error) => error);
    shop.abort.abort();
    expect(await adding).to.be.instanceOf(Error);
    expect(shop.told.at(-1)).to.equal('resume');

    const paused = await scene(3);
    paused.pauseBy('broker upgrade');
    await paused.add(6);
    expect(paused.told).to.deep.equal(['pause', 'add 6']);
  });

  it('takes over what somebody else has added, which is not read before', async () => {
    const shop = await scene(3);
    const { log, lines } = recordingLog();
    const guard = createPartitionGuard(db, shop.projection, log);
    const assigned = Array.from({ length: 6 }, (_, partition) => at(partition, shop.topic));
    const counts = () => new Map([[shop.topic, shop.count]]);
    expect(await guard(assigned.slice(0, 3), counts())).to.deep.equal([]);
    shop.alter(6);
    for (let times = 0; times < 2; times++)
      expect(await guard(assigned, counts())).to.deep.equal(assigned.slice(3));
    expect(
      lines.map(({ level }) => level),
      'said once',
    ).to.deep.equal([50]);
    expect(lines[0]?.msg).to.contain('millrace topics add-partitions');
    await shop.add(3);
    expect(shop.told, 'nothing to add').to.deep.equal(['pause', 'resume']);
    expect(await guard(assigned, counts())).to.deep.equal([]);

    for (const other of [8, 2]) {
      shop.alter(other);
      const refusal = await guard(assigned, counts()).catch((error: Error) => error);
      expect(refusal).to.be.instanceOf(OperatorError);
      expect((refusal as OperatorError).line).to.contain(`millrace rebuild ${shop.projection.name}`);
    }
  });
});
