import { writeAudit } from '../operator-audit/write-audit.ts';
import type { Database } from '../postgres/database.ts';
import { countGhosts, dismissGhosts, type GhostList, listGhosts } from '../relay/ghosts/list-ghosts.ts';
import { letRelaysReconsider, loadPause, type Pause, pauseRelay, resumeRelay } from '../relay/pause.ts';
import { planReshard, type ReshardReport, reshard } from '../relay/reshard.ts';
import { planResync, type ResyncPlan, refuseForgottenEvents, resyncCursor } from '../relay/resync-cursor.ts';
import type { StallSettings } from '../relay/stall/explain-stall.ts';
import { type HeldLease, readRelayLeases } from '../relay/stall/read-relay-processes.ts';
import type { LogLoss } from '../relay/wal/log-loss.ts';
import { returnToLog } from '../relay/wal/return-to-log.ts';
import { type RelayStatus, readRelayStatus } from './read-relay-status.ts';

export { shardsMax } from '../relay/shard.ts';

export interface PauseReport {
  /** False when it was paused already; then the first one's word stands. */
  readonly changed: boolean;
  readonly pause: Pause;
  /** Relays that have not given their lease back yet: they finish what they have begun. */
  readonly stillRelaying: readonly HeldLease[];
}

export interface ResumeReport {
  /** The pause that is over; null when there was none. */
  readonly ended: Pause | null;
}

export interface UseWalReport {
  /** Why the relays did not read the log; null when they had not lost it. */
  readonly ended: LogLoss | null;
}

export interface ResyncReport extends ResyncPlan {
  readonly dryRun: boolean;
  readonly fromId: number;
}

export interface DismissReport {
  readonly dryRun: boolean;
  readonly events: number;
}

/** What a list shows unless told otherwise, and what it shows at most. */
export const ghostListDefault = 50;
export const ghostListMax = 10_000;

/** What an operator can see of the relays and tell them, from the command line and over HTTP alike. */
export interface RelayAdmin {
  status(): Promise<RelayStatus>;
  pause(options: { who: string; because: string | null }): Promise<PauseReport>;
  resume(options: { who: string }): Promise<ResumeReport>;
  /** Publishes everything from an id on again; what lies before counts as published. Refused for events that were forgotten. */
  resync(fromId: number, options: { who: string; dryRun: boolean }): Promise<ResyncReport>;
  /** Divides the journal into another number of shards while relays run. */
  reshard(shards: number, options: { who: string; dryRun: boolean }): Promise<ReshardReport>;
  /** Events that Kafka has and the journal has not, in the order in which Kafka got them. */
  ghosts(options: { limit: number }): Promise<GhostList>;
  /** What they did is mended: nobody is told of them any more. */
  dismissGhosts(options: { who: string; dryRun: boolean }): Promise<DismissReport>;
  /** After the replication slot was lost: lets relays with RELAY_SOURCE=wal make a new one and read the log again. */
  useWal(options: { who: string }): Promise<UseWalReport>;
  /** Whoever has the right to relay at the moment. */
  relaying(): Promise<readonly HeldLease[]>;
}

export interface RelayAdminSettings extends StallSettings {
  /** How long projections know which events they have handled. */
  readonly handledRetentionMs: number;
}

export const createRelayAdmin = (database: Database, settings: RelayAdminSettings): RelayAdmin => ({
  status: () => readRelayStatus(database, settings),

  pause: async ({ who, because }) => {
    const { changed, pause } = await database.transaction(async (tx) => {
      const isNew = await pauseRelay(tx, { by: who, because });
      if (isNew) await writeAudit(tx, { who, action: 'relay.pause', target: { because } });
      const stands = await loadPause(tx);
      if (!stands) throw new Error('A pause was asked for and there is none');
      return { changed: isNew, pause: stands };
    });
    return { changed, pause, stillRelaying: await readRelayLeases(database) };
  },

  resume: ({ who }) =>
    database.transaction(async (tx) => {
      const pause = await loadPause(tx);
      if (!(await resumeRelay(tx))) return { ended: null };
      await writeAudit(tx, { who, action: 'relay.resume', target: { pause } });
      return { ended: pause };
    }),

  resync: (fromId, { who, dryRun }) =>
    database.transaction(async (tx) => {
      await refuseForgottenEvents(tx, { fromId, handledRetentionMs: settings.handledRetentionMs });
      const plan = await planResync(tx, fromId);
      if (!dryRun) {
        await resyncCursor(tx, fromId);
        await letRelaysReconsider(tx);
        await writeAudit(tx, { who, action: 'relay.resync', target: { fromId, ...plan } });
      }
      return { dryRun, fromId, ...plan };
    }),

  reshard: (shards, { who, dryRun }) =>
    dryRun ? planReshard(database, shards) : reshard(database, { shards, who }),

  ghosts: (options) => listGhosts(database, options),

  dismissGhosts: ({ who, dryRun }) =>
    database.transaction(async (tx) => {
      if (dryRun) return { dryRun, events: await countGhosts(tx) };
      const events = await dismissGhosts(tx);
      if (events > 0) await writeAudit(tx, { who, action: 'relay.dismiss-ghosts', target: { events } });
      return { dryRun, events };
    }),

  useWal: ({ who }) =>
    database.transaction(async (tx) => {
      const ended = await returnToLog(tx);
      if (ended) await writeAudit(tx, { who, action: 'relay.use-wal', target: { ...ended } });
      return { ended };
    }),

  relaying: () => readRelayLeases(database),
});
