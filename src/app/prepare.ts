import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import { storeWriterSchemas } from '../journal/writer-schemas.ts';
import { connectTopicAdmin } from '../kafka/topic-admin.ts';
import { migrate } from '../postgres/migrate.ts';
import { registerSchemas } from '../registry/register-schemas.ts';
import { addPartitionsCommand, applyTopics, type TopicChange } from '../topics/apply-topics.ts';
import { planTopics } from '../topics/topic-plan.ts';
import type { Adapters } from './adapters.ts';

/** What must be there before the first command: tables, and the schemas this version writes with. */
export const prepareDatabase = async (
  databaseUrl: string,
  { database }: Adapters,
  config: Config,
  log: Logger,
): Promise<void> => {
  const applied = await migrate(databaseUrl, { log, connectTimeoutMs: config.database.connectTimeoutMs });
  if (applied.length > 0) log.info({ migrations: applied }, 'The database schema was brought up to date');
  await storeWriterSchemas(database);
};

/** What must be there before the first record: topics, and the schemas in the registry. */
export const prepareBroker = async (adapters: Adapters, config: Config, log: Logger): Promise<void> => {
  const [changes] = await Promise.all([
    bringTopicsToPlan(adapters, config, { dryRun: false }),
    registerSchemas(adapters.registry),
  ]);
  const pending = changes.filter(({ change }) => change === 'partitions pending').map(({ topic }) => topic);
  if (pending.length > 0)
    log.warn(
      { topics: pending, planned: config.topics.partitions },
      `Topics have fewer partitions than TOPIC_PARTITIONS; a start adds none, because keys move. Add them with ${addPartitionsCommand}`,
    );
};

export const bringTopicsToPlan = async (
  { kafka }: Adapters,
  config: Config,
  options: { dryRun: boolean },
): Promise<readonly TopicChange[]> => {
  const admin = await connectTopicAdmin(kafka);
  try {
    return await applyTopics(admin, planTopics(config.topics, await admin.brokerCount()), options);
  } finally {
    await admin.close();
  }
};
