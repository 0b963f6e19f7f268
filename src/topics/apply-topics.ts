import type { TopicAdmin } from '../kafka/topic-admin.ts';
import type { PlannedTopic } from './topic-plan.ts';

export interface TopicChange {
  readonly topic: string;
  readonly change: 'created' | 'partitions added' | 'settings changed' | 'as planned';
  readonly detail: string;
}

/**
 * Brings the broker's topics to the plan. Partitions are never taken away: Kafka cannot, and adding some moves keys to
 * other partitions, so that is said in the report.
 */
export const applyTopics = async (
  admin: TopicAdmin,
  plan: readonly PlannedTopic[],
  options: { dryRun: boolean },
): Promise<readonly TopicChange[]> => {
  const existing = await admin.describe(plan.map((planned) => planned.topic));
  const changes: TopicChange[] = [];
  for (const planned of plan) {
    const found = existing.get(planned.topic);
    if (!found) {
      changes.push({
        topic: planned.topic,
        change: 'created',
        detail: `${planned.partitions} partitions, ${planned.replicationFactor} copies`,
      });
    } else if (found.partitions < planned.partitions) {
      changes.push({
        topic: planned.topic,
        change: 'partitions added',
        detail: `${found.partitions} → ${planned.partitions}; keys move, order across the change is not kept`,
      });
    } else if (
      found.retentionMs !== planned.retentionMs ||
      found.minInsyncReplicas !== planned.minInsyncReplicas
    ) {
      changes.push({
        topic: planned.topic,
        change: 'settings changed',
        detail: `retention ${found.retentionMs} → ${planned.retentionMs} ms, in-sync ${found.minInsyncReplicas} → ${planned.minInsyncReplicas}`,
      });
    } else {
      changes.push({ topic: planned.topic, change: 'as planned', detail: `${found.partitions} partitions` });
    }
  }
  if (!options.dryRun) await carryOut(admin, plan, changes);
  return changes;
};

const carryOut = async (
  admin: TopicAdmin,
  plan: readonly PlannedTopic[],
  changes: readonly TopicChange[],
): Promise<void> => {
  const planned = (change: TopicChange['change']) =>
    plan.filter((_, index) => changes[index]?.change === change);
  await admin.create(planned('created'));
  await admin.addPartitions(planned('partitions added'));
  await admin.changeSettings([...planned('settings changed'), ...planned('partitions added')]);
};
