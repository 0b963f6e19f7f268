import { setTimeout as sleep } from 'node:timers/promises';
import { withSlotSession } from '../../postgres/create-replication-slot.ts';
import type { Database } from '../../postgres/database.ts';
import { codeOf } from '../../postgres/sql-error.ts';
import { type Lease, LeaseMoved } from '../lease.ts';
import { loadOutboxCursor, moveOutboxCursor, type OutboxCursor } from '../outbox-cursor.ts';
import { holdLease } from './hold-lease.ts';
import { forgetLogLoss, storeLogLoss } from './log-loss.ts';
import {
  dropSlot,
  ensurePublication,
  expelReader,
  explainRefusal,
  requireFreeName,
  requireLogicalLog,
  requireOneShard,
  requirePlainName,
} from './slot.ts';
import {
  beginPosition,
  findSettledSnapshot,
  forgetPositions,
  loadPosition,
  OtherTimeline,
  readTimeline,
} from './stored-position.ts';

export interface SlotNames {
  readonly slot: string;
  readonly publication: string;
}

export const defaultSlotNames: SlotNames = { slot: 'millrace_relay', publication: 'millrace_outbox' };

export interface HandOverToWalOptions extends SlotNames {
  readonly databaseUrl: string;
  readonly applicationName: string;
  readonly connectTimeoutMs: number;
  /** How long a new slot may wait for transactions that are open already. */
  readonly slotWaitMaxMs: number;
}

/**
 * Makes the slot, unless there is a position in one already. The rows that are visible in the snapshot in which it begins
 * stay the cursor's; everything else comes through the slot.
 */
export const handOverToWal = async (db: Database, options: HandOverToWalOptions): Promise<void> => {
  const { slot, publication } = options;
  requirePlainName(slot);
  requirePlainName(publication);
  await requireLogicalLog(db);
  await requireOneShard(db);
  try {
    await withSlotSession(
      { ...options, url: options.databaseUrl, waitMaxMs: options.slotWaitMaxMs },
      async (session) => {
        await ensurePublication(db, publication);
        const stored = await loadPosition(db, slot);
        if (stored) return;
        // A slot without a position is from a process that died between making the one and storing the other, or
        // between forgetting the one and dropping the other, or from before a resync. In any case the cursor has not
        // been relieved of a row, and whoever still reads from it cannot settle anything.
        await dropUnusedSlot(db, slot);
        await requireFreeName(db, slot);
        const timeline = await readTimeline(db);
        const { consistentLsn, snapshot } = await session.create(slot);
        if (await beginPosition(db, { slot, lsn: consistentLsn, timeline, cursorUntil: snapshot })) return;
        // In this very moment somebody has divided the journal, or the server was promoted. A slot that nobody reads
        // keeps the log for ever.
        await dropSlot(db, slot);
        await requireOneShard(db);
        throw new OtherTimeline('PostgreSQL was promoted while the relay made its replication slot');
      },
    );
  } catch (error) {
    throw explainRefusal(error);
  }
};

export interface HandedOverToCursor {
  /** Where the cursor goes on; null when it never finished what it had before the slot, and simply continues. */
  readonly cursor: OutboxCursor | null;
}

export interface HandOverToCursorOptions {
  readonly slot: string;
  readonly lease: Lease;
  /** Why the relay does so though it should read the log; without it, because it was told to. */
  readonly lostBecause?: string;
}

/**
 * Gives the rows back to the cursor: everything the relay has not settled from the log comes from the table, and a few
 * rows that it has settled come again. Works without the slot, and is the way back when the slot is lost. Nothing to do,
 * and undefined, when the relay was not reading from the log.
 */
export const handOverToCursor = async (
  db: Database,
  { slot, lease, lostBecause }: HandOverToCursorOptions,
): Promise<HandedOverToCursor | undefined> => {
  const handedOver = await db.transaction(async (tx) => {
    if (!(await holdLease(tx, lease))) throw new LeaseMoved('The lease has gone to another relay');
    if (lostBecause === undefined) await forgetLogLoss(tx);
    const stored = await loadPosition(tx, slot);
    if (!stored) return undefined;
    if (lostBecause !== undefined) await storeLogLoss(tx, { slot, reason: lostBecause });
    const cursor = stored.cursorUntil === null ? cursorAt(await findSettledSnapshot(tx, slot)) : null;
    if (cursor && !(await moveOutboxCursor(tx, { cursor }, { ...(await loadOutboxCursor(tx)), lease }))) {
      throw new LeaseMoved('The lease has gone to another relay');
    }
    await forgetPositions(tx, slot);
    return { cursor };
  });
  // Only now: from here on nobody needs the slot. A crash before this line leaves it behind, and it keeps the log from
  // being removed; so it is also dropped when there was nothing else to do.
  await dropUnusedSlot(db, slot);
  return handedOver;
};

const cursorAt = (snapshot: string): OutboxCursor => ({ from: snapshot, to: snapshot, lastId: 0 });

const objectInUse = '55006';
const dropAttemptsMax = 50;
const dropRetryMs = 100;

const dropUnusedSlot = async (db: Database, slot: string): Promise<void> => {
  for (let attempt = 1; ; attempt++) {
    try {
      await expelReader(db, slot);
      return await dropSlot(db, slot);
    } catch (error) {
      if (codeOf(error) !== objectInUse || attempt === dropAttemptsMax) throw error;
      await sleep(dropRetryMs);
    }
  }
};
