import { expect } from 'chai';
import pg from 'pg';
import { appendEvents, VersionConflict } from '../../../src/journal/append-events.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { findOutboxDelta } from '../../../src/relay/open-outbox-delta.ts';
import { startOfJournal } from '../../../src/relay/outbox-cursor.ts';
import { readOutboxPage } from '../../../src/relay/read-outbox-page.ts';
import { viewOf } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

interface SeenRow {
  readonly id: number;
  readonly aggregateId: string;
  readonly version: number;
}

/** Reads what is new since the last call. The two below are tried in the same storm. */
type Reader = (db: Database) => Promise<readonly SeenRow[]>;

const pageSize = 7;
const rowById = {
  name: 'spec-rows',
  text: `select id, aggregate_id as "aggregateId", aggregate_version as version from outbox where id = any ($1) order by id`,
};

const snapshotReader = (): Reader => {
  let { from } = startOfJournal;
  return async (db) => {
    const found = await findOutboxDelta(db, from);
    if (!found) return [];
    let delta = found;
    const ids: number[] = [];
    for (;;) {
      const page = await readOutboxPage(db, delta, { rowsMax: pageSize, row: null });
      ids.push(...page.map(({ id }) => id));
      const lastId = page.at(-1)?.id;
      if (lastId === undefined || lastId >= delta.bounds.finalId) break;
      delta = { ...delta, cursor: { ...delta.cursor, lastId } };
    }
    from = delta.cursor.to;
    return db.execute<SeenRow>(rowById, [ids]);
  };
};

/** What people write first, and what loses events: ids are given out before the commit. */
const highestIdReader = (): Reader => {
  const statement = {
    name: 'spec-highest-id',
    text: `select id, aggregate_id as "aggregateId", aggregate_version as version from outbox where id > $1 order by id limit 1000`,
  };
  let last = 0;
  return async (db) => {
    const rows = await db.execute<SeenRow>(statement, [last]);
    last = rows.at(-1)?.id ?? last;
    return rows;
  };
};

const writers = 8;
const transactionsPerWriter = 60;
const hotAggregates = 4;

/** Concurrent writers that contend for the same aggregates, commit slowly now and then, and roll back now and then. */
const writeStorm = async (db: Database): Promise<void> => {
  const versions = new Map<string, number>();
  const write = async (writer: number, turn: number): Promise<void> => {
    const hot = `hot-${(writer + turn) % hotAggregates}`;
    const version = (versions.get(hot) ?? 0) + 1;
    const events = [viewOf(`own-${writer}-${turn}`, 1)];
    if (turn % 2 === 0) events.push(viewOf(hot, version));
    try {
      await db.transaction(async (tx) => {
        await appendEvents(tx, events);
        // Longer than a few reads take: ids that were given out are overtaken by higher ones.
        if (turn % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 15));
        if (turn % 7 === 3) throw new Error('rolled back on purpose');
      });
      if (events.length > 1) versions.set(hot, Math.max(version, versions.get(hot) ?? 0));
    } catch (error) {
      if (!(error instanceof VersionConflict) && (error as Error).message !== 'rolled back on purpose')
        throw error;
    }
  };
  await Promise.all(
    Array.from({ length: writers }, async (_, writer) => {
      for (let turn = 0; turn < transactionsPerWriter; turn++) await write(writer, turn);
    }),
  );
};

const orderBreaks = (seen: readonly SeenRow[]): readonly string[] => {
  const next = new Map<string, number>();
  return seen.flatMap(({ aggregateId, version }) => {
    const expected = next.get(aggregateId) ?? 1;
    next.set(aggregateId, version + 1);
    return version === expected ? [] : [`${aggregateId}: version ${version} where ${expected} was next`];
  });
};

interface Verdict {
  readonly committed: number;
  readonly lost: number;
  readonly repeated: number;
  readonly breaks: readonly string[];
  readonly readWhileOpen: number;
}

describe('outbox cursor', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace(), writers + 2);
  });

  /** An append-only table does not like to be emptied between tests. */
  const emptyJournal = async (): Promise<void> => {
    await db.transaction(async (tx) => {
      await tx.execute({
        name: 'spec-off',
        text: 'alter table outbox disable trigger outbox_is_append_only',
      });
      await tx.execute({ name: 'spec-empty', text: 'truncate outbox' });
      await tx.execute({ name: 'spec-on', text: 'alter table outbox enable trigger outbox_is_append_only' });
    });
  };
  beforeEach(emptyJournal);

  const countAll = async (): Promise<number> => {
    const [row] = await db.execute<{ count: number }>({
      name: 'spec-count',
      text: 'select count(*) from outbox',
    });
    return row?.count ?? 0;
  };

  const tryInStorm = async (read: Reader): Promise<Verdict> => {
    // A transaction of somebody else that writes elsewhere and is forgotten: it must not hold anything up.
    const forgotten = new pg.Client({ connectionString: workspace().endpoints.databaseUrl });
    await forgotten.connect();
    await forgotten.query('begin; create temporary table forgotten (n int); select pg_current_xact_id()');

    const seen: SeenRow[] = [];
    let storming = true;
    const reading = (async () => {
      while (storming) seen.push(...(await read(db)));
    })();
    await writeStorm(db);
    storming = false;
    await reading;
    seen.push(...(await read(db)));
    const readWhileOpen = seen.length;
    await forgotten.end();
    seen.push(...(await read(db)));

    const distinct = new Set(seen.map(({ id }) => id)).size;
    const committed = await countAll();
    return {
      committed,
      lost: committed - distinct,
      repeated: seen.length - distinct,
      breaks: orderBreaks(seen),
      readWhileOpen,
    };
  };

  it('by snapshots loses nothing, repeats nothing and keeps every aggregate in order', async () => {
    const verdict = await tryInStorm(snapshotReader());
    expect(verdict.committed).to.be.greaterThan(300);
    expect(verdict).to.deep.include({ lost: 0, repeated: 0, breaks: [] });
    expect(verdict.readWhileOpen, 'read while a transaction was left open').to.equal(verdict.committed);
  });

  it('by the highest id fails the same test', async () => {
    const verdict = await tryInStorm(highestIdReader());
    expect(verdict.lost).to.be.greaterThan(0);
  });

  it('finds a row whose transaction was open when later rows were read', async () => {
    const read = snapshotReader();
    const slow = new pg.Client({ connectionString: workspace().endpoints.databaseUrl });
    await slow.connect();
    await slow.query('begin');
    await slow.query(
      `insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, aggregate_version, partition_key,
                           request_id, schema_fingerprint, payload, content_hash, occurred_at)
       values (gen_random_uuid(), 't', 's', 'T', 'slow', 1, 'k', 'r', sha256('x'), 'p', sha256('x'), now())`,
    );
    await db.transaction((tx) => appendEvents(tx, [viewOf('fast', 1)]));
    expect((await read(db)).map(({ aggregateId }) => aggregateId)).to.deep.equal(['fast']);
    await slow.query('commit');
    await slow.end();
    expect((await read(db)).map(({ aggregateId }) => aggregateId)).to.deep.equal(['slow']);
    expect(await read(db)).to.deep.equal([]);
  });

  it('never sees an event of a transaction that was rolled back', async () => {
    const read = snapshotReader();
    await db
      .transaction(async (tx) => {
        await appendEvents(tx, [viewOf('gone', 1)]);
        throw new Error('rolled back');
      })
      .catch(() => {});
    await db.transaction((tx) => appendEvents(tx, [viewOf('here', 1)]));
    expect((await read(db)).map(({ aggregateId }) => aggregateId)).to.deep.equal(['here']);
  });
});
