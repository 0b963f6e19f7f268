import { v7 as uuidv7 } from 'uuid';
import type { Config } from '../config/settings.ts';
import {
  createDeadLetterAdmin,
  type DeadLetterAdmin,
  type DeadLetterAdminOptions,
} from '../dlq-admin/dlq-admin.ts';
import type { LetterTopics } from '../dlq-admin/letter-id.ts';
import { topicNames } from '../event-catalogue/topic-name.ts';
import { createRecordProducer } from '../kafka/record-producer.ts';
import { connectTopicReader } from '../kafka/topic-reader.ts';
import { readFramedEnvelope } from '../registry/read-framed-envelope.ts';
import { nodesOfTopology } from '../streams/topology.ts';
import type { Adapters } from './adapters.ts';
import { projections } from './projections.ts';

/** The topics whose dead letters are looked after. */
export const deadLetterTopics = (config: Config): LetterTopics => ({
  names: topicNames,
  prefix: config.topics.prefix,
});

const orderStepsOf = (config: Config): DeadLetterAdminOptions['orderSteps'] =>
  new Map(
    projections(config).map((topology) => [
      topology.name,
      nodesOfTopology(topology).flatMap(({ kind, label }) => (kind === 'in-order' ? [label] : [])),
    ]),
  );

type Servers = Pick<Adapters, 'database' | 'kafka' | 'registry'>;

export const deadLetterAdminOptions = (
  { database, kafka, registry }: Servers,
  config: Config,
): DeadLetterAdminOptions => ({
  database,
  topics: deadLetterTopics(config),
  openReader: () => connectTopicReader(kafka),
  openProducer: () => createRecordProducer(kafka, config.kafka),
  readValue: (framed) => readFramedEnvelope(registry, framed),
  replaysMax: config.deadLetters.replaysMax,
  newReplayId: uuidv7,
  orderSteps: orderStepsOf(config),
});

/** The operator's tools for dead letters, over the servers of this process. */
export const deadLetterAdminOf = (servers: Servers, config: Config): DeadLetterAdmin =>
  createDeadLetterAdmin(deadLetterAdminOptions(servers, config));
