import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { Database, SqlRunner } from '../../../src/postgres/database.ts';
import { createCursorSource } from '../../../src/relay/cursor-source.ts';
import { findWithheld } from '../../../src/relay/find-withheld.ts';
import { acquireLease, releaseLease } from '../../../src/relay/lease.ts';
import { tellThatRelayLives } from '../../../src/relay/live-relays.ts';
import { aggregateKey, type FailedRow, type OutboxRow } from '../../../src/relay/outbox-source.ts';
import type { PageOutcome } from '../../../src/relay/publish-page.ts';
import { mainRelayLease, singleShard } from '../../../src/relay/shard.ts';
import { createSuspicion } from '../../../src/relay/suspicion.ts';
import { viewOf } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const settings = { suspectAfterDeaths: 3, batchSizeMax: 5, leaseMs: 30_000 };
const died = Symbol('died');

describe('an event that ends the process', () => {
  const workspace = useWorkspace();
  const { log, lines } = recordingLog();
  let db: Database;
  let published: string[] = [];
  let statements: string[] = [];
  before(() => {
    const real = openTestDatabase(workspace());
    const told = <T extends SqlRunner>(runner: T): T => ({
      ...runner,
      execute: (statement, values) => {
        statements.push(statement.name);
        return runner.execute(statement, values);
      },
    });
    db = { ...told(real), transaction: (routine) => real.transaction((tx) => routine(told(tx))) };
  });
  beforeEach(async () => {
    await db.transaction(async (tx) => {
      for (const text of [
        'alter table outbox disable trigger outbox_is_append_only',
        'truncate outbox, outbox_failed, outbox_cursor, scheduler_lock, relay_suspicion, relay_process',
        'alter table outbox enable trigger outbox_is_append_only',
      ]) {
        await tx.execute({ name: `spec-${text.slice(0, 30)}`, text });
      }
    });
    published = [];
    statements = [];
    lines.length = 0;
  });

  const append = async (...keys: readonly string[]): Promise<void> => {
    const versions = new Map<string, number>();
    for (const key of keys) {
      const version = (versions.get(key) ?? 0) + 1;
      versions.set(key, version);
      await appendEvents(db, [viewOf(key, version)]);
    }
  };
  const failed = () =>
    db.execute<{ key: string; version: number; unanswered: number }>({
      name: 'spec-failed',
      text: `select aggregate_id as key, aggregate_version as version, unanswered_count as unanswered
             from outbox_failed order by outbox_id`,
    });

  let holders = 0;
  /** Its lease has run out by the time somebody asks for it, unless it gives it back. */
  const takeLease = async () => {
    holders += 1;
    const request = { name: mainRelayLease, holder: `h${holders}`, holdMs: -1 };
    const lease = await acquireLease(db, request);
    if (!lease) throw new Error('Nobody else wants it');
    return { lease, release: () => releaseLease(db, request) };
  };

  type Publish = (rows: readonly OutboxRow[]) => Promise<PageOutcome | typeof died>;

  /** Sends what may be sent; dies with what must not be touched, before anything else of the page gets out. */
  const publishUnless =
    (...killers: readonly string[]): Publish =>
    async (rows) => {
      const { held } = await findWithheld(db, rows);
      const sendable = rows.filter((row) => !held.has(aggregateKey(row)));
      if (sendable.some(({ partitionKey }) => killers.includes(partitionKey))) return died;
      published.push(...sendable.map((row) => `${row.aggregateId}@${row.aggregateVersion}`));
      const behind: FailedRow[] = rows
        .filter((row) => !sendable.includes(row))
        .map((row) => ({ row, error: 'behind', tried: false }));
      return { settledCount: rows.length, failed: behind };
    };

  /** One process from its start to its end, which is the end of the journal or its death. */
  const live = async (publish: Publish, pagesMax = Number.POSITIVE_INFINITY): Promise<'done' | 'died'> => {
    const { lease, release } = await takeLease();
    const source = createCursorSource(db);
    const suspicion = createSuspicion({
      database: db,
      shard: singleShard,
      settings,
      observer: undefined,
      log,
    });
    await suspicion.consider(lease);
    for (let pages = 0; pages < pagesMax; pages++) {
      const page = await source.nextPage(suspicion.rowsMax, lease);
      if (!page) {
        await release();
        return 'done';
      }
      const end = Promise.withResolvers<typeof died>();
      const outcome = await Promise.race([
        end.promise,
        suspicion.watch(page.rows, lease, async () => {
          const result = await publish(page.rows);
          if (result !== died) return result;
          end.resolve(died);
          // A process that has ended does not come back from anything.
          return new Promise<PageOutcome>(() => {});
        }),
      ]);
      if (outcome === died) return 'died';
      if (outcome.settledCount > 0) await source.settle(page, outcome.settledCount, outcome.failed, lease);
      else source.forget();
    }
    return 'died';
  };
  const livesUntilDone = async (publish: Publish): Promise<number> => {
    for (let deaths = 0; deaths < 20; deaths++) if ((await live(publish)) === 'done') return deaths;
    throw new Error('It dies again and again');
  };

  it('is found after some deaths, and set aside with its aggregate; everything else flows, in order', async () => {
    await append('a', 'b', 'c', 'bad', 'd', 'bad', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l');
    // Three for the suspicion, and one that tells which.
    expect(await livesUntilDone(publishUnless('bad'))).to.equal(4);
    expect(published).to.deep.equal([...'abcdefghijkl'].map((key) => `${key}@1`));
    expect(await failed()).to.deep.equal([
      { key: 'bad', version: 1, unanswered: 1 },
      { key: 'bad', version: 2, unanswered: 0 },
    ]);
    const told = lines.filter(({ level }) => level >= 50);
    expect(told.map(({ msg }) => msg)).to.have.length(1);
    expect(told[0]).to.include({ eventType: 'loopers.product.viewed.v1', deaths: 4 });
  });

  it('has company: a second one behind it costs one more death', async () => {
    await append('a', 'bad', 'b', 'worse', 'c', 'd', 'e', 'f', 'g');
    expect(await livesUntilDone(publishUnless('bad', 'worse'))).to.equal(5);
    expect((await failed()).map(({ key }) => key)).to.deep.equal(['bad', 'worse']);
    expect(published).to.deep.equal([...'abcdefg'].map((key) => `${key}@1`));
  });

  it('is not looked for as long as nobody dies: nothing is asked or written', async () => {
    await append(...'abcdefghijkl');
    expect(await live(publishUnless())).to.equal('done');
    await append(...'mnop');
    expect(await live(publishUnless())).to.equal('done');
    expect(statements.filter((name) => /death|suspect/.test(name))).to.deep.equal([]);
  });

  it('is not seen in deaths that have nothing to do with each other', async () => {
    await append(...'abcdefghijklmnopqrstuvwxyz');
    for (let death = 0; death < 4; death++) expect(await live(publishUnless(), 1)).to.equal('died');
    expect(lines.filter(({ msg }) => msg.includes('one by one'))).to.deep.equal([]);
    expect(await live(publishUnless())).to.equal('done');
    expect(await failed()).to.deep.equal([]);
  });

  it('is not one that the brokers did not take, or one that was answered before the process ended', async () => {
    await append(...'abcdef');
    for (let death = 0; death < 3; death++) expect(await live(publishUnless('a'))).to.equal('died');
    const trouble: Publish = async () => ({
      settledCount: 0,
      failed: [],
      stopped: { because: 'broker-trouble' },
    });
    expect(await live(trouble, 2)).to.equal('died');
    expect(await live(publishUnless())).to.equal('done');
    expect(published).to.deep.equal([...'abcdef'].map((key) => `${key}@1`));
    expect(await failed()).to.deep.equal([]);
  });

  it('is not seen in relays that were too slow and live', async () => {
    await append(...'abc');
    for (let lapse = 0; lapse < 5; lapse++) {
      expect(await live(publishUnless('a'))).to.equal('died');
      await tellThatRelayLives(db, { name: `h${holders}`, aliveMs: settings.leaseMs });
    }
    expect(await live(publishUnless())).to.equal('done');
    expect(lines.filter(({ msg }) => msg.includes('one by one'))).to.deep.equal([]);
    expect(await failed()).to.deep.equal([]);
  });

  it('is seen in a relay that ended although it told a while ago that it lives', async () => {
    await append(...'abc');
    for (let death = 0; death < 3; death++) {
      expect(await live(publishUnless('a'))).to.equal('died');
      // Its lease has run out, which takes longer than it may be silent.
      await tellThatRelayLives(db, { name: `h${holders}`, aliveMs: settings.leaseMs / 3 });
    }
    expect(await live(publishUnless(), 1)).to.equal('died');
    expect(lines.filter(({ msg }) => msg.includes('one by one'))).to.have.length(1);
  });

  it('is not named by one that has lost its lease and wakes up', async () => {
    await append(...'abc');
    for (let death = 0; death < 3; death++) expect(await live(publishUnless('a'))).to.equal('died');
    const sleeper = await takeLease();
    const suspicion = createSuspicion({
      database: db,
      shard: singleShard,
      settings,
      observer: undefined,
      log,
    });
    await suspicion.consider(sleeper.lease);
    expect(suspicion.rowsMax).to.equal(1);
    const page = await createCursorSource(db).nextPage(1, sleeper.lease);
    await takeLease();
    await suspicion
      .watch(page?.rows ?? [], sleeper.lease, () => Promise.reject(new Error('late')))
      .catch(() => {});
    const [row] = await db.execute<{ suspect: number | null }>({
      name: 'spec-suspect',
      text: 'select suspect_id as suspect from relay_suspicion',
    });
    expect(row).to.deep.equal({ suspect: null });
  });
});
