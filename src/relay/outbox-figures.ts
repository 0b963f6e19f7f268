import type { SqlRunner } from '../postgres/database.ts';
import { countHeldEvents, type HeldCounts } from './count-held-events.ts';
import { countGhosts } from './ghosts/list-ghosts.ts';
import { ForeignCursor } from './outbox-cursor.ts';
import { loadPause } from './pause.ts';
import { readShardFigures, type ShardFigures } from './shard-figures.ts';

/** How much waits, and for how long. */
export interface OutboxFigures extends HeldCounts {
  readonly pending: number;
  readonly overdue: number;
  readonly oldestPendingAgeMs: number;
  readonly isPaused: boolean;
  /** Events that Kafka has and the journal has not. */
  readonly ghosts: number;
}

export const readOutboxFigures = async (db: SqlRunner): Promise<OutboxFigures> => {
  const [shards, held, pause, ghosts] = await Promise.all([
    readShardFigures(db),
    countHeldEvents(db),
    loadPause(db),
    countGhosts(db),
  ]);
  if (shards.some(({ isForeign }) => isForeign))
    throw new ForeignCursor('The position is that of another server');
  return {
    ...held,
    pending: sumOf(shards, ({ pending }) => pending),
    overdue: sumOf(shards, ({ overdue }) => overdue),
    oldestPendingAgeMs: Math.max(0, ...shards.map(oldestAgeMs)),
    isPaused: pause !== null,
    ghosts,
  };
};

const oldestAgeMs = ({ now, oldestPendingAt }: ShardFigures): number =>
  oldestPendingAt ? now.getTime() - oldestPendingAt.getTime() : 0;

const sumOf = (shards: readonly ShardFigures[], figure: (shard: ShardFigures) => number): number =>
  shards.reduce((sum, shard) => sum + figure(shard), 0);
