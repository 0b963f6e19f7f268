import type { Broker, Cluster } from 'kafkajs';
import {
  type AskedPartition,
  encodeFetchRequest,
  type FetchFields,
  fetchVersion,
  topicIdOf,
} from './fetch-request.ts';
import { decodeFetchResponse, type FetchedPartition } from './fetch-response.ts';
import { flexibleRequest } from './flexible-fields.ts';
import { requireVersion } from './topic-ids.ts';

/** What a broker is asked for. */
export interface FetchCall {
  /** Below this a broker waits for more; kafkajs's own is 1. */
  readonly minBytes?: number;
  readonly maxWaitTime: number;
  readonly maxBytes: number;
  readonly topics: readonly {
    readonly topic: string;
    readonly partitions: readonly AskedPartition[];
  }[];
}

export interface PlannedFetch {
  readonly call: FetchCall;
  accept(partitions: readonly FetchedPartition[]): void;
}

export interface Fetching {
  /** What to ask for in place of what kafkajs would; nothing when there is no room. */
  plan(call: FetchCall): PlannedFetch | undefined;
  /** Until it is worth while to ask again, or that time has passed. */
  waitForRoom(timeMs: number): Promise<void>;
}

interface ProtocolRequest {
  readonly request: object;
  readonly response: { readonly parse: (answer: unknown) => Promise<unknown> };
}

type Lookup = (apiKey: number, definition: unknown) => (fields: FetchFields) => ProtocolRequest;

interface BrokerInternals {
  readonly versions: Readonly<Record<number, { readonly maxVersion: number }>>;
  lookupRequest: Lookup;
  fetch(call: FetchCall): Promise<unknown>;
}

/** To kafkajs it looks as if nothing had come: it beats its heart and asks again. */
const nothing = { responses: [] };

/**
 * kafkajs goes on looking after connections, leaders, the group and its heartbeats. But what is fetched, from which offset
 * and how much, is decided here, and what comes goes past kafkajs: it makes an object of each record and each of its
 * headers, whether anybody looks at them or not, knows no room and no bounds, and keeps positions that run ahead of what
 * was applied. Only brokers of this one consumer are changed.
 */
export const takeOverFetches = (cluster: Cluster, fetching: Fetching): void => {
  const findBroker = cluster.findBroker.bind(cluster);
  const taken = new WeakSet<Broker>();
  cluster.findBroker = async (node) => {
    const broker = await findBroker(node);
    if (!taken.has(broker)) {
      taken.add(broker);
      takeOver(broker as unknown as BrokerInternals, fetching);
    }
    return broker;
  };
};

const takeOver = (broker: BrokerInternals, fetching: Fetching): void => {
  const fetch = broker.fetch;
  broker.fetch = async (call) => {
    const planned = fetching.plan(call);
    if (planned) await send(broker, fetch, planned);
    else await fetching.waitForRoom(call.maxWaitTime);
    return nothing;
  };
};

/** One fetch of what is committed, for whoever belongs to no group. Offsets that are not there are no failure. */
export const fetchPartitions = async (
  broker: Broker,
  call: FetchCall,
): Promise<readonly FetchedPartition[]> => {
  const internals = broker as unknown as BrokerInternals;
  let fetched: readonly FetchedPartition[] = [];
  const accept = (partitions: readonly FetchedPartition[]): void => {
    fetched = partitions;
  };
  await send(internals, internals.fetch, { call, accept });
  return fetched;
};

/** kafkajs asks for what is committed unless it is told otherwise. */
const send = async (
  broker: BrokerInternals,
  fetch: BrokerInternals['fetch'],
  planned: PlannedFetch,
): Promise<void> => {
  const lookupRequest = { value: answeredTo(planned, broker) };
  await fetch.call(Object.create(broker, { lookupRequest }) as BrokerInternals, planned.call);
};

/** Which partitions are asked is kafkajs's to say, and what the broker complains about; how it is said and read is ours. */
const answeredTo =
  (planned: PlannedFetch, broker: BrokerInternals): Lookup =>
  (apiKey, definition) =>
  (fields) => {
    requireVersion(broker, { api: apiKey, version: fetchVersion });
    const topics = new Map(
      fields.topics.map(({ topic, partitions }) => [topicIdOf(topic, partitions), topic] as const),
    );
    const request = {
      apiKey,
      apiVersion: fetchVersion,
      apiName: 'Fetch',
      encode: async () => flexibleRequest(encodeFetchRequest(fields)),
    };
    const { response } = broker.lookupRequest(apiKey, definition)(fields);
    const decode = async (bytes: Buffer): Promise<unknown> => {
      const { throttleMs, partitions } = decodeFetchResponse(bytes, topics);
      planned.accept(partitions);
      return { throttleTime: 0, clientSideThrottleTime: throttleMs, responses: complaints(partitions) };
    };
    return { request, response: { ...response, decode } };
  };

/** Offsets that are gone are no trouble of the broker's; whoever planned the fetch has been told. */
export const outOfRange = 1;

const unknownTopic = 3;
/** The broker has no topic with that id, or another one of the name. kafkajs knows topics by name only, and asks for them anew. */
const unknownTopicIds: ReadonlySet<number> = new Set([100, 103]);

const complaints = (partitions: readonly FetchedPartition[]): readonly unknown[] =>
  partitions
    .filter(({ errorCode }) => errorCode !== 0 && errorCode !== outOfRange)
    .map(({ topic, partition, errorCode }) => ({
      topicName: topic,
      partitions: [{ partition, errorCode: unknownTopicIds.has(errorCode) ? unknownTopic : errorCode }],
    }));
