import { setTimeout as sleep } from 'node:timers/promises';
import { appendEvents, VersionConflict } from '../../src/journal/append-events.ts';
import type { Database } from '../../src/postgres/database.ts';
import { acquireLease, type Lease } from '../../src/relay/lease.ts';
import type { OutboxRow, OutboxSource } from '../../src/relay/outbox-source.ts';
import { dropSlot } from '../../src/relay/wal/slot.ts';
import {
  createWalSource,
  prepareWalSource,
  type WalSource,
  type WalSourceSettings,
} from '../../src/relay/wal/wal-source.ts';
import { eventually } from './eventually.ts';
import { viewOf } from './journal.ts';
import { type DatabaseHome, openTestDatabase } from './open-database.ts';
import { silentLog } from './silent-log.ts';

let slots = 0;
let statements = 0;

/** For one spec file: an empty journal for each test, and a slot of its own, since slots belong to the whole server. */
export const useWal = (workspace: () => DatabaseHome, poolSizeMax = 12) => {
  let db: Database;
  let names = { slot: '', publication: '' };
  let opened: WalSource[] = [];

  const run = <Row>(text: string) => {
    statements += 1;
    return db.execute<Row>({ name: `spec-run-${statements}`, text });
  };

  before(() => {
    db = openTestDatabase(workspace(), poolSizeMax);
  });
  beforeEach(async () => {
    slots += 1;
    names = { slot: `spec_${process.pid}_${slots}`, publication: `spec_${process.pid}_${slots}` };
    await db.transaction(async (tx) => {
      for (const text of [
        'alter table outbox disable trigger outbox_is_append_only',
        'truncate outbox, outbox_failed, outbox_cursor, outbox_wal_position, relay_log_loss, scheduler_lock',
        'alter table outbox enable trigger outbox_is_append_only',
      ]) {
        await tx.execute({ name: `spec-${text.slice(0, 30)}`, text });
      }
    });
  });
  afterEach(async () => {
    await Promise.all(opened.map((source) => source.close()));
    opened = [];
    await eventually(() => dropSlot(db, names.slot));
    await db.execute({
      name: `spec-drop-${names.slot}`,
      text: `drop publication if exists ${names.publication}`,
    });
  });

  return {
    db: () => db,
    names: () => names,
    run,
    open: async (settings: Partial<WalSourceSettings> = {}, onChange?: () => void): Promise<WalSource> => {
      const options = {
        database: db,
        databaseUrl: workspace().endpoints.databaseUrl,
        applicationName: `wal-${names.slot}`,
        log: silentLog(),
        settings: { ...names, statusIntervalMs: 100, ...settings },
        ...(onChange && { onChange }),
      };
      await prepareWalSource(options);
      const source = createWalSource(options);
      opened.push(source);
      return source;
    },
    takeLease: async (holder = 'spec'): Promise<Lease> => {
      await run(`update scheduler_lock set locked_until = '-infinity'`);
      const lease = await acquireLease(db, { name: 'spec-relay', holder, holdMs: 600_000 });
      if (!lease) throw new Error('Nobody else wants the lease');
      return lease;
    },
    append: (...rows: readonly (readonly [aggregate: string, version: number])[]) =>
      db.transaction((tx) =>
        appendEvents(
          tx,
          rows.map(([aggregate, version]) => viewOf(aggregate, version)),
        ),
      ),
    committedIds: async (): Promise<readonly number[]> =>
      (await db.execute<{ id: number }>({ name: 'spec-ids', text: 'select id from outbox order by id' })).map(
        ({ id }) => id,
      ),
  };
};

/** Settles whatever comes until the source has nothing more and `isOver`. */
export const readUntil = async (
  source: OutboxSource,
  lease: Lease,
  { isOver, rowsMax = 7 }: { isOver: (seen: readonly OutboxRow[]) => boolean; rowsMax?: number },
): Promise<readonly OutboxRow[]> => {
  const seen: OutboxRow[] = [];
  for (;;) {
    const page = await source.nextPage(rowsMax, lease);
    if (page) {
      if (!(await source.settle(page, page.rows.length, [], lease))) throw new Error('The lease has moved');
      seen.push(...page.rows);
    } else {
      if (isOver(seen)) return seen;
      await sleep(2);
    }
  }
};

/** The next page, once there is one. */
export const pageOf = (source: OutboxSource, lease: Lease, rowsMax: number, rowsMin = 1) =>
  eventually(async () => {
    const page = await source.nextPage(rowsMax, lease);
    if (!page || page.rows.length < rowsMin) throw new Error(`${page?.rows.length ?? 0} rows so far`);
    return page;
  });

export const labels = (rows: readonly SeenRow[]): readonly string[] =>
  rows.map(({ aggregateId, aggregateVersion }) => `${aggregateId}/${aggregateVersion}`);

/** Concurrent writers that contend for the same aggregates, commit slowly now and then, and roll back now and then. */
export const writeStorm = async (
  db: Database,
  {
    writers,
    turns = Number.POSITIVE_INFINITY,
    isOver = () => false,
  }: { writers: number; turns?: number; isOver?: () => boolean },
): Promise<void> => {
  const versions = new Map<string, number>();
  const write = async (writer: number, turn: number): Promise<void> => {
    const hot = `hot-${(writer + turn) % 4}`;
    const version = (versions.get(hot) ?? 0) + 1;
    const events = [viewOf(`own-${writer}-${turn}`, 1)];
    if (turn % 2 === 0) events.push(viewOf(hot, version));
    try {
      await db.transaction(async (tx) => {
        await appendEvents(tx, events);
        if (turn % 5 === 0) await sleep(10);
        if (turn % 7 === 3) throw new Error('rolled back on purpose');
      });
      if (events.length > 1) versions.set(hot, Math.max(version, versions.get(hot) ?? 0));
    } catch (error) {
      if (error instanceof VersionConflict) return;
      if ((error as Error).message !== 'rolled back on purpose') throw error;
    }
  };
  await Promise.all(
    Array.from({ length: writers }, async (_, writer) => {
      for (let turn = 0; turn < turns && !isOver(); turn++) await write(writer, turn);
    }),
  );
};

export interface Verdict {
  readonly lost: number;
  readonly repeated: number;
  readonly breaks: readonly string[];
}

export type SeenRow = Pick<OutboxRow, 'id' | 'aggregateId' | 'aggregateVersion'>;

/** What is wrong with what was read: order is judged by the first sight of each row. */
export const judge = (seen: readonly SeenRow[], committedIds: readonly number[]): Verdict => {
  const first = new Map<number, SeenRow>();
  for (const row of seen) if (!first.has(row.id)) first.set(row.id, row);
  const next = new Map<string, number>();
  const breaks = [...first.values()].flatMap(({ aggregateId, aggregateVersion }) => {
    const expected = next.get(aggregateId) ?? 1;
    next.set(aggregateId, aggregateVersion + 1);
    return aggregateVersion === expected
      ? []
      : [`${aggregateId}: ${aggregateVersion} instead of ${expected}`];
  });
  return {
    lost: committedIds.filter((id) => !first.has(id)).length,
    repeated: seen.length - first.size,
    breaks,
  };
};
