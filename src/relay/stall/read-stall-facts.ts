import type { Database, SqlRunner } from '../../postgres/database.ts';
import { loadPause, type Pause } from '../pause.ts';
import { leaseOfShard } from '../shard.ts';
import { readShardFigures, type ShardFigures } from '../shard-figures.ts';
import { inspectSlot, type SlotHealth } from '../wal/slot.ts';
import { type LongTransaction, readHoldingSessions } from './read-holding-sessions.ts';
import { type ParkedEvents, readParkedEvents } from './read-parked-events.ts';
import {
  type HeldLease,
  type RelayProcess,
  readRelayLeases,
  readRelayProcesses,
} from './read-relay-processes.ts';
import { locked, readUnlessLocked } from './read-unless-locked.ts';

export interface StallShard extends ShardFigures {
  /** Null when nobody has it. */
  readonly lease: HeldLease | null;
}

/** Everything in the database that can tell why events do not move. */
export interface StallFacts {
  /** The server's time. */
  readonly now: Date;
  readonly pause: Pause | null;
  readonly shards: readonly StallShard[];
  readonly relays: readonly RelayProcess[];
  readonly parked: ParkedEvents;
  readonly transactions: readonly LongTransaction[];
  /** Only where the relay reads the write-ahead log. */
  readonly slot: SlotHealth | null;
  /** Somebody has locked a table that had to be looked at: what is in it is left out, and `transactions` tells who. */
  readonly isIncomplete: boolean;
}

/** One after the other: the relay beside it needs its connections more than anybody needs to know this at once. */
export const readStallFacts = async (
  database: Database,
  { stallAfterMs }: { stallAfterMs: number },
): Promise<StallFacts> => {
  let isIncomplete = false;
  const unlessLocked = async <T>(read: (tx: SqlRunner) => Promise<T>, otherwise: T): Promise<T> => {
    const found = await readUnlessLocked(database, read);
    if (found === locked) isIncomplete = true;
    return found === locked ? otherwise : found;
  };
  const figures = await unlessLocked(readShardFigures, []);
  const leases = await unlessLocked(readRelayLeases, []);
  const pause = await unlessLocked(loadPause, null);
  const relays = await unlessLocked(readRelayProcesses, []);
  const parked = await unlessLocked(readParkedEvents, { refused: [], single: null });
  const slot = await unlessLocked(readSlotInUse, null);
  const transactions = await readHoldingSessions(database, { longerThanMs: stallAfterMs });
  const shards = figures.map((shard) => ({
    ...shard,
    lease: leases.find(({ name }) => name === leaseOfShard(shard)) ?? null,
  }));
  const now = shards[0]?.now ?? new Date();
  return { now, pause, shards, relays, parked, transactions, slot, isIncomplete };
};

const slotStatement = {
  name: 'find-slot-in-use',
  text: 'select slot from outbox_wal_position order by id desc limit 1',
};

const readSlotInUse = async (db: SqlRunner): Promise<SlotHealth | null> => {
  const [position] = await db.execute<{ slot: string }>(slotStatement);
  return position ? inspectSlot(db, position.slot) : null;
};
