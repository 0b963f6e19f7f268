import type { TopicAdmin, TopicDescription } from '../kafka/topic-admin.ts';
import type { PlannedTopic } from './topic-plan.ts';

export interface TopicChange {
  readonly topic: string;
  readonly change: 'created' | 'partitions pending' | 'settings changed' | 'as planned';
  readonly detail: string;
}

/** What adds partitions without losing the order of a key's events, or what is kept of them. */
export const addPartitionsCommand = 'npx millrace topics add-partitions';

/**
 * Brings the broker's topics to the plan, but for the number of partitions of one that is there: Kafka cannot take any away,
 * and adding some moves keys to other partitions, which projections and relays have to be ready for.
 */
export const applyTopics = async (
  admin: TopicAdmin,
  plan: readonly PlannedTopic[],
  options: { dryRun: boolean },
): Promise<readonly TopicChange[]> => {
  const existing = await admin.describe(plan.map((planned) => planned.topic));
  const changes = plan.map((planned) => changeOf(planned, existing.get(planned.topic)));
  if (!options.dryRun) {
    await admin.create(plan.filter((_, index) => changes[index]?.change === 'created'));
    await admin.changeSettings(
      plan.filter((planned) => {
        const found = existing.get(planned.topic);
        return found !== undefined && hasOtherSettings(planned, found);
      }),
    );
  }
  return changes;
};

const changeOf = (planned: PlannedTopic, found: TopicDescription | undefined): TopicChange => {
  const { topic, partitions } = planned;
  if (!found)
    return {
      topic,
      change: 'created',
      detail: `${partitions} partitions, ${planned.replicationFactor} copies`,
    };
  const settings = `retention ${found.retentionMs} → ${planned.retentionMs} ms, in-sync ${found.minInsyncReplicas} → ${planned.minInsyncReplicas}`;
  const isOther = hasOtherSettings(planned, found);
  if (found.partitions < partitions)
    return {
      topic,
      change: 'partitions pending',
      detail: `${found.partitions} of ${partitions} partitions; add them with ${addPartitionsCommand}${isOther ? `; ${settings}` : ''}`,
    };
  const count =
    found.partitions > partitions
      ? `${found.partitions} partitions where ${partitions} are planned; Kafka cannot take any away`
      : `${found.partitions} partitions`;
  if (isOther) return { topic, change: 'settings changed', detail: settings };
  return { topic, change: 'as planned', detail: count };
};

const hasOtherSettings = (planned: PlannedTopic, found: TopicDescription): boolean =>
  found.retentionMs !== planned.retentionMs || found.minInsyncReplicas !== planned.minInsyncReplicas;
