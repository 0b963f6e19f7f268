import type { SqlRunner } from '../../postgres/database.ts';

/** Partitions that were added to a topic: an event from before may come again in another partition than it was handled in. */
export interface TopicGrowth {
  /** Events that happened before this may have been handled in any partition. */
  readonly eventsUntilMs: number;
  readonly partitions: number;
}

const statement = {
  name: 'load-topic-growth',
  text: `
    select topic, max(partitions) as partitions, (extract(epoch from max(events_until)) * 1000)::float8 as "eventsUntilMs"
    from topic_growth group by topic`,
};

/** By topic; a topic that never grew is not in it. */
export const loadTopicGrowth = async (db: SqlRunner): Promise<ReadonlyMap<string, TopicGrowth>> => {
  const rows = await db.execute<TopicGrowth & { topic: string }>(statement);
  return new Map(rows.map(({ topic, ...growth }) => [topic, growth]));
};
