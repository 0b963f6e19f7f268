import kafkajs, { type Broker } from 'kafkajs';
import { FlexibleWriter, flexibleAnswer, flexibleRequest, noUuid } from './flexible-fields.ts';

// A CommonJS module: Node does not see this one among its named exports.
const { KafkaJSNonRetriableError } = kafkajs;

export type TopicIds = ReadonlyMap<string, string>;

/** The part of kafkajs's cluster that knows brokers. */
interface ClusterInternals {
  readonly brokerPool: { findConnectedBroker(): Promise<Broker> };
}

interface BrokerInternals {
  readonly versions: Readonly<Record<number, { readonly maxVersion: number }>>;
  metadata(topics: readonly string[]): Promise<unknown>;
}

const metadataApi = 3;
/** The newest that brokers know since 3.1; kafkajs's own are from before topics had ids. */
const metadataVersion = 12;

/** What topics of these names are known by. One that is not there has no id. */
export const findTopicIds = async (cluster: unknown, topics: readonly string[]): Promise<TopicIds> => {
  const broker = await (cluster as ClusterInternals).brokerPool.findConnectedBroker();
  const internals = broker as unknown as BrokerInternals;
  requireVersion(internals, { api: metadataApi, version: metadataVersion });
  const lookupRequest = { value: () => () => metadataCall(topics) };
  const asking = Object.create(internals, { lookupRequest }) as BrokerInternals;
  return (await asking.metadata(topics)) as TopicIds;
};

/** Ids of topics are asked for and fetched by in versions that go together. */
export const requireVersion = (
  { versions }: Pick<BrokerInternals, 'versions'>,
  { api, version }: { readonly api: number; readonly version: number },
): void => {
  if ((versions[api]?.maxVersion ?? 0) >= version) return;
  throw new KafkaJSNonRetriableError(
    'The broker does not know topics by their ids: Kafka 3.1 or newer is needed',
  );
};

const metadataCall = (topics: readonly string[]) => ({
  request: {
    apiKey: metadataApi,
    apiVersion: metadataVersion,
    apiName: 'Metadata',
    encode: async () => flexibleRequest(encodeRequest(topics)),
  },
  response: { decode: async (answer: Buffer) => decodeTopicIds(answer), parse: async (ids: TopicIds) => ids },
});

const encodeRequest = (topics: readonly string[]): FlexibleWriter => {
  const body = new FlexibleWriter();
  return body
    .list(topics, (topic) => body.uuid(noUuid).text(topic).noTags())
    .int8(0) // no topic gets created
    .int8(0) // no list of what a topic allows
    .noTags();
};

/**
 * throttle time 4 · brokers (id 4 · host · port 4 · rack) · cluster · controller 4 · topics (error 2 · name · id 16 · internal 1 ·
 * partitions (error 2 · number 4 · leader 4 · epoch 4 · replicas, in sync, offline) · allowed 4)
 */
export const decodeTopicIds = (answer: Buffer): TopicIds => {
  const cursor = flexibleAnswer(answer);
  cursor.skip(4);
  cursor.list(() => {
    cursor.skip(4);
    cursor.text();
    cursor.skip(4);
    cursor.text();
    cursor.tags();
  });
  cursor.text();
  cursor.skip(4);
  const found = new Map<string, string>();
  cursor.list(() => {
    const errorCode = cursor.int16();
    const topic = cursor.text();
    const topicId = cursor.uuid();
    cursor.skip(1);
    cursor.list(() => {
      cursor.skip(14);
      for (let lists = 0; lists < 3; lists++) cursor.list(() => cursor.int32());
      cursor.tags();
    });
    cursor.skip(4);
    cursor.tags();
    if (errorCode === 0 && topicId !== noUuid) found.set(topic, topicId);
  });
  return found;
};
