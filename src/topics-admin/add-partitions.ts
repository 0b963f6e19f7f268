import { setTimeout as sleep } from 'node:timers/promises';
import type { TopicAdmin } from '../kafka/topic-admin.ts';
import { writeAudit } from '../operator-audit/write-audit.ts';
import { OperatorError } from '../operator-error.ts';
import type { Database, SqlRunner } from '../postgres/database.ts';
import { codeOf } from '../postgres/sql-error.ts';
import type { RelayAdmin } from '../relay-admin/relay-admin.ts';
import { knownPartitions } from '../streams-postgres/partitions/known-partitions.ts';
import {
  type BuildToMove,
  type MovedKeys,
  type MovedTopic,
  moveKeys,
  type PartitionOf,
} from '../streams-postgres/partitions/move-keys.ts';
import { noteTopicGrowth, openPartitions } from '../streams-postgres/partitions/open-partitions.ts';
import { describePause, listPauses, resumeCommand } from '../streams-postgres/pauses/projection-pause.ts';
import type { PlannedTopic } from '../topics/topic-plan.ts';
import { type Backlog, describeBacklog, findBacklog, type PartitionRange } from './backlog.ts';
import { buildsText, type GrowthPlan, planGrowth, type ReadingProjection } from './growth-plan.ts';

export interface AddPartitionsPorts {
  readonly database: Database;
  readonly relay: Pick<RelayAdmin, 'pause' | 'resume' | 'relaying'>;
  readonly admin: Pick<TopicAdmin, 'describe' | 'addPartitions' | 'ranges'>;
  readonly plan: readonly PlannedTopic[];
  readonly projections: readonly ReadingProjection[];
  readonly partitionOf: PartitionOf;
  readonly who: string;
  readonly onProgress: (text: string) => void;
  readonly signal: AbortSignal;
}

export interface AddPartitionsOptions {
  readonly dryRun: boolean;
  /** Although projections have not applied everything: events of a key may then be applied out of order. */
  readonly force: boolean;
  /** How long relays and projections have to finish what is on its way. */
  readonly waitMaxMs: number;
}

export interface AddPartitionsReport {
  readonly dryRun: boolean;
  readonly topics: readonly MovedTopic[];
  readonly projections: readonly (BuildToMove & MovedKeys)[];
}

const pollMs = 100;
const pauseReason = 'millrace topics add-partitions';

/**
 * Adds the partitions that are planned and lets everything that is kept by partition follow its keys. Nothing is on its way
 * meanwhile: relays are paused and projections have applied all there is, so that no key has records in two partitions. Begun
 * and not finished, it is finished by the next run, as are partitions that somebody has added by other means.
 */
export const addPartitions = async (
  ports: AddPartitionsPorts,
  options: AddPartitionsOptions,
): Promise<AddPartitionsReport> => {
  const plan = await planNow(ports);
  if (options.dryRun || (plan.added.length === 0 && plan.builds.length === 0))
    return reportOf(plan, { dryRun: options.dryRun, moved: new Map() });
  const { pause, changed } = await ports.relay.pause({ who: ports.who, because: pauseReason });
  try {
    return await grow(ports, plan, options);
  } finally {
    // Whoever paused it for another reason lets it go on.
    if (changed || pause.because === pauseReason) await ports.relay.resume({ who: ports.who });
  }
};

const planNow = async ({ database, admin, plan, projections }: AddPartitionsPorts): Promise<GrowthPlan> => {
  const existing = await admin.describe(plan.map(({ topic }) => topic));
  return planGrowth(database, { plan, existing, projections });
};

const grow = async (
  ports: AddPartitionsPorts,
  plan: GrowthPlan,
  options: AddPartitionsOptions,
): Promise<AddPartitionsReport> => {
  const { database, admin, signal } = ports;
  const deadlineMs = Date.now() + options.waitMaxMs;
  await untilNobodyRelays(ports, deadlineMs);
  // Before Kafka has them: whoever sees them and does not find what is kept for so many stops.
  for (const { projection, version, topics } of plan.builds) {
    const before = new Map(topics.map((topic) => [topic.topic, topic.before]));
    await knownPartitions(database, { name: projection, version }, before);
  }
  if (!options.force) await untilApplied(ports, plan, deadlineMs);
  signal.throwIfAborted();
  await admin.addPartitions(plan.added);
  await untilVisible(ports, plan, deadlineMs);
  return moveAll(ports, plan, options);
};

const untilNobodyRelays = async (
  { relay, onProgress, signal }: AddPartitionsPorts,
  deadlineMs: number,
): Promise<void> => {
  for (;;) {
    const relaying = await relay.relaying();
    if (relaying.length === 0) return;
    const names = relaying.map(({ holder, name }) => `${holder} (${name})`).join(', ');
    onProgress(`waiting for relays to finish what they have begun: ${names}`);
    if (Date.now() > deadlineMs)
      throw new OperatorError(
        `Relays have not finished what they have begun: ${names}; no partition was added`,
        { remedy: 'See with npx millrace relay status what holds them up, then try again' },
      );
    await sleep(pollMs, undefined, { signal });
  }
};

const rangesOf = async (
  { admin }: AddPartitionsPorts,
  { builds }: GrowthPlan,
): Promise<readonly PartitionRange[]> => {
  const topics = new Set(builds.flatMap((build) => build.topics.map(({ topic }) => topic)));
  const ranges: PartitionRange[] = [];
  for (const topic of topics) for (const range of await admin.ranges(topic)) ranges.push({ topic, ...range });
  return ranges;
};

const untilApplied = async (
  ports: AddPartitionsPorts,
  plan: GrowthPlan,
  deadlineMs: number,
): Promise<void> => {
  for (;;) {
    const backlog = await findBacklog(ports.database, plan.builds, await rangesOf(ports, plan));
    if (backlog.length === 0) return;
    await refuseIfPaused(ports.database, backlog);
    ports.onProgress(`waiting for projections: ${describeBacklog(backlog)}`);
    if (Date.now() > deadlineMs) throw notApplied(describeBacklog(backlog));
    await sleep(pollMs, undefined, { signal: ports.signal });
  }
};

/** Nobody knows when it goes on, and the relay is paused meanwhile. */
const refuseIfPaused = async (db: SqlRunner, backlog: readonly Backlog[]): Promise<void> => {
  const pauses = await listPauses(db);
  const behind = new Set(backlog.map(({ projection }) => projection));
  const paused = [...pauses].filter(([projection]) => behind.has(projection));
  if (paused.length === 0) return;
  const texts = paused.map(([projection, pause]) => `${projection} is ${describePause(pause)}`);
  const held = backlog.filter(({ projection }) => pauses.has(projection));
  throw new OperatorError(
    `${texts.join(', ')}, and has not applied everything that is in the topics: ${describeBacklog(held)}; no partition was added`,
    {
      remedy: `Let it go on with ${paused.map(([projection]) => resumeCommand(projection)).join(' and ')}, and try again`,
    },
  );
};

const notApplied = (backlog: string): OperatorError =>
  new OperatorError(`Projections have not applied everything that is in the topics: ${backlog}`, {
    remedy:
      'Start what is missing, or see with npx millrace status what holds it up, and try again; or use --force, which lets the events of a key be applied out of order, and npx millrace rebuild afterwards',
  });

/** Kafka's answer comes before every broker knows of it. */
const untilVisible = async (
  { admin, signal }: AddPartitionsPorts,
  { added }: GrowthPlan,
  deadlineMs: number,
): Promise<void> => {
  for (;;) {
    const found = await admin.describe(added.map(({ topic }) => topic));
    const missing = added.find(({ topic, partitions }) => (found.get(topic)?.partitions ?? 0) < partitions);
    if (!missing) return;
    if (Date.now() > deadlineMs)
      throw new OperatorError(`The brokers do not show the new partitions of ${missing.topic} yet`, {
        remedy: 'Run the same command again: it goes on from here',
      });
    await sleep(pollMs, undefined, { signal });
  }
};

const holdStatement = {
  name: 'hold-builds-to-move',
  text: `
    select projection, version from projection_build
    where status = 'live' and projection = any ($1::text[]) order by projection for update`,
};
const settingsStatement = {
  name: 'settings-of-move',
  text: `
    select set_config('lock_timeout', '2s', true), set_config('statement_timeout', '0', true),
           set_config('idle_in_transaction_session_timeout', '0', true)`,
};

/** All of it or nothing; no projection commits meanwhile, and what each was about to commit is fenced afterwards. */
const moveAll = async (
  ports: AddPartitionsPorts,
  plan: GrowthPlan,
  { force }: AddPartitionsOptions,
): Promise<AddPartitionsReport> => {
  const ranges = await rangesOf(ports, plan);
  const move = (): Promise<AddPartitionsReport> =>
    ports.database.transaction(async (tx) => {
      await tx.execute(settingsStatement);
      await tx.execute(holdStatement, [plan.builds.map(({ projection }) => projection)]);
      await requireSamePlan(ports, tx, plan);
      const backlog = force ? [] : await findBacklog(tx, plan.builds, ranges);
      if (backlog.length > 0) throw notApplied(describeBacklog(backlog));
      const moved = new Map<string, MovedKeys>();
      for (const build of plan.builds) {
        moved.set(build.projection, await moveKeys(tx, build, ports.partitionOf));
        await openPartitions(tx, build);
      }
      for (const topic of grownTopics(plan)) await noteTopicGrowth(tx, topic);
      const report = reportOf(plan, { dryRun: false, moved });
      const { topics, projections } = report;
      await writeAudit(tx, {
        who: ports.who,
        action: 'topics.add-partitions',
        target: { topics, projections, force },
      });
      return report;
    });
  for (let tries = 1; ; tries++) {
    try {
      return await move();
    } catch (error) {
      if (codeOf(error) !== lockNotAvailable || tries === triesMax) throw error;
    }
  }
};

const lockNotAvailable = '55P03';
const triesMax = 10;

/** Kafka has the partitions by now: what is left of the plan is what was planned to be moved. */
const requireSamePlan = async (
  { projections }: AddPartitionsPorts,
  tx: SqlRunner,
  plan: GrowthPlan,
): Promise<void> => {
  const targets = grownTopics(plan).map(({ topic, partitions }) => ({
    topic,
    partitions,
    replicationFactor: 1,
    minInsyncReplicas: 1,
    retentionMs: 1,
  }));
  const existing = new Map(targets.map((target) => [target.topic, target]));
  const now = await planGrowth(tx, { plan: targets, existing, projections });
  if (buildsText(now.builds) === buildsText(plan.builds)) return;
  throw new OperatorError('Another build of a projection is live by now, or somebody has moved its keys', {
    remedy: 'Run the same command again: it goes on from here',
  });
};

/** By topic, from the lowest number that anything is kept for. */
const grownTopics = ({ added, builds }: GrowthPlan): readonly MovedTopic[] => {
  const all = [
    ...added.map(({ topic, before, partitions }) => ({ topic, before, partitions })),
    ...builds.flatMap(({ topics }) => topics),
  ];
  return [...Map.groupBy(all, ({ topic }) => topic)].map(([topic, changes]) => ({
    topic,
    before: Math.min(...changes.map(({ before }) => before)),
    partitions: Math.max(...changes.map(({ partitions }) => partitions)),
  }));
};

const reportOf = (
  plan: GrowthPlan,
  { dryRun, moved }: { dryRun: boolean; moved: ReadonlyMap<string, MovedKeys> },
): AddPartitionsReport => ({
  dryRun,
  topics: grownTopics(plan),
  projections: plan.builds.map((build) => ({
    ...build,
    ...(moved.get(build.projection) ?? { states: 0, parkedKeys: 0 }),
  })),
});
