import type { TopicDescription } from '../kafka/topic-admin.ts';
import { OperatorError } from '../operator-error.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { loadKnownPartitions } from '../streams-postgres/partitions/known-partitions.ts';
import type { BuildToMove, MovedTopic } from '../streams-postgres/partitions/move-keys.ts';
import type { PlannedTopic } from '../topics/topic-plan.ts';

/** A projection, and the topics it reads, as the broker calls them. */
export interface ReadingProjection {
  readonly name: string;
  readonly topics: readonly string[];
}

export interface GrowthPlan {
  /** Topics that get partitions from Kafka. */
  readonly added: readonly (PlannedTopic & { readonly before: number })[];
  /** What is kept for another number of partitions than the topics have then: by those that are added, or were by others. */
  readonly builds: readonly BuildToMove[];
}

const buildsStatement = {
  name: 'list-builds-to-move',
  text: `
    select projection, version, status from projection_build
    where projection = any ($1::text[]) and status in ('live', 'building', 'returning')
    order by projection, version`,
};

interface BuildRow {
  readonly projection: string;
  readonly version: number;
  readonly status: 'live' | 'building' | 'returning';
}

/** What has to change so that topics have the partitions that are planned, and all that is kept lies where their keys are. */
export const planGrowth = async (
  db: SqlRunner,
  options: {
    readonly plan: readonly PlannedTopic[];
    readonly existing: ReadonlyMap<string, TopicDescription>;
    readonly projections: readonly ReadingProjection[];
  },
): Promise<GrowthPlan> => {
  const { plan, existing, projections } = options;
  const present = plan.flatMap((planned) => {
    const found = existing.get(planned.topic);
    return found ? [{ ...planned, before: found.partitions }] : [];
  });
  const target = new Map(
    present.map(({ topic, before, partitions }) => [topic, Math.max(before, partitions)]),
  );
  const builds: BuildToMove[] = [];
  for (const { projection, version } of await requireFinishedBuilds(db, projections)) {
    const known = await loadKnownPartitions(db, { name: projection, version });
    const read = new Set(projections.find(({ name }) => name === projection)?.topics);
    const topics = present.flatMap(({ topic, before }): MovedTopic[] => {
      const [from, to] = [known.get(topic) ?? before, target.get(topic) ?? before];
      return read.has(topic) && from < to ? [{ topic, before: from, partitions: to }] : [];
    });
    if (topics.length > 0) builds.push({ projection, version, topics });
  }
  return { added: present.filter(({ before, partitions }) => before < partitions), builds };
};

/** A build that is being filled counts on the partitions that it began with. */
const requireFinishedBuilds = async (
  db: SqlRunner,
  projections: readonly ReadingProjection[],
): Promise<readonly BuildRow[]> => {
  const rows = await db.execute<BuildRow>(buildsStatement, [projections.map(({ name }) => name)]);
  const unfinished = rows.find(({ status }) => status !== 'live');
  if (!unfinished) return rows;
  throw new OperatorError(
    `${unfinished.projection} is being ${unfinished.status === 'building' ? 'rebuilt' : 'rolled back'}: its build ${unfinished.version} would not fit other partitions`,
    { remedy: `Let npx millrace rebuild ${unfinished.projection} come to its end first, then try again` },
  );
};

/** The same plan makes the same text, in whatever order its topics were listed. */
export const buildsText = (builds: readonly BuildToMove[]): string =>
  JSON.stringify(
    builds.map(({ projection, version, topics }) => [
      projection,
      version,
      topics.map(({ topic, before, partitions }) => `${topic} ${before} ${partitions}`).sort(),
    ]),
  );
