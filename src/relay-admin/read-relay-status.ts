import type { Database } from '../postgres/database.ts';
import { countHeldEvents, type HeldCounts } from '../relay/count-held-events.ts';
import { type GhostStatus, readGhostStatus } from '../relay/ghosts/list-ghosts.ts';
import type { Pause } from '../relay/pause.ts';
import { describeReason } from '../relay/stall/describe-reason.ts';
import { explainStall, type StallSettings } from '../relay/stall/explain-stall.ts';
import type { RelayProcess } from '../relay/stall/read-relay-processes.ts';
import { readStallFacts, type StallFacts, type StallShard } from '../relay/stall/read-stall-facts.ts';
import { locked, readUnlessLocked } from '../relay/stall/read-unless-locked.ts';
import type { StallReason } from '../relay/stall/stall-reason.ts';
import { type LogLoss, loadLogLoss } from '../relay/wal/log-loss.ts';

/** Who relays what, how far it is, what waits, and why it is late if it is. */
export interface RelayStatus extends HeldCounts {
  readonly pause: Pause | null;
  readonly pending: number;
  /** Pending for more than five minutes. */
  readonly overdue: number;
  readonly oldestPendingAt: Date | null;
  /** In order; one unless somebody asked for more. */
  readonly shards: readonly ShardStatus[];
  /** The relays that are alive, whether they have a shard or stand by. */
  readonly processes: readonly RelayProcess[];
  /** Where the relay reads the write-ahead log. */
  readonly slot: SlotStatus | null;
  /** What Kafka has and the journal has not. */
  readonly ghosts: GhostStatus;
  /** Why relays that should read the write-ahead log read the table by snapshots. */
  readonly logLoss: LogLoss | null;
  /** Somebody has locked a table that had to be looked at: its figures are missing. */
  readonly isIncomplete: boolean;
  /** Empty when events are on time. */
  readonly late: readonly LateReason[];
}

export interface ShardStatus {
  readonly number: number;
  readonly of: number;
  readonly cursor: { readonly from: string; readonly to: string; readonly lastId: number };
  readonly movedAt: Date | null;
  readonly pending: number;
  readonly oldestPendingAt: Date | null;
  /** Nobody when it has no owner. */
  readonly heldBy: string | null;
  readonly heldUntil: Date | null;
}

export interface SlotStatus {
  readonly name: string;
  readonly state: string;
  readonly active: boolean;
  readonly lagBytes: number | null;
}

export interface LateReason {
  readonly reason: StallReason;
  readonly sentence: string;
  readonly remedy: string;
}

export const readRelayStatus = async (database: Database, settings: StallSettings): Promise<RelayStatus> => {
  const facts = await readStallFacts(database, settings);
  const held = await readUnlessLocked(database, countHeldEvents);
  const ghosts = await readUnlessLocked(database, readGhostStatus);
  const logLoss = await readUnlessLocked(database, loadLogLoss);
  const { pause, shards, relays, slot } = facts;
  return {
    pause,
    ...(held === locked ? { failed: 0, dead: 0 } : held),
    pending: shards.reduce((sum, { pending }) => sum + pending, 0),
    overdue: shards.reduce((sum, { overdue }) => sum + overdue, 0),
    oldestPendingAt: oldestOf(facts),
    shards: shards.map(shardStatus),
    processes: relays,
    slot: slot && { name: slot.slot, state: slot.walStatus, active: slot.active, lagBytes: slot.lagBytes },
    ghosts: ghosts === locked ? { events: 0, search: null } : ghosts,
    logLoss: logLoss === locked ? null : logLoss,
    isIncomplete: facts.isIncomplete || held === locked || ghosts === locked || logLoss === locked,
    late: explainStall(facts, settings).map((reason) => ({ reason, ...describeReason(reason) })),
  };
};

const shardStatus = ({ lease, ...shard }: StallShard): ShardStatus => ({
  number: shard.number,
  of: shard.of,
  cursor: { from: shard.position.from, to: shard.position.to, lastId: shard.position.lastId },
  movedAt: shard.movedAt,
  pending: shard.pending,
  oldestPendingAt: shard.oldestPendingAt,
  heldBy: lease?.holder ?? null,
  heldUntil: lease?.until ?? null,
});

const oldestOf = ({ shards }: StallFacts): Date | null =>
  shards
    .map(({ oldestPendingAt }) => oldestPendingAt)
    .filter((time) => time !== null)
    .sort((a, b) => a.getTime() - b.getTime())[0] ?? null;
