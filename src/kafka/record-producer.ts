import { setImmediate } from 'node:timers/promises';
import { CompressionTypes, type Kafka, type Message, type Producer } from 'kafkajs';
import type { EncodedBatch } from './encoded-batch.ts';
import { createPartitioner, planRounds, type Round } from './plan-rounds.ts';
import { letBrokersTakeEncodedBatches } from './produce-encoded-batches.ts';
import { PublishError, toPublishError, type UnacknowledgedRecords } from './publish-error.ts';
import type { OutgoingRecord } from './record-batch.ts';

export type { OutgoingRecord, RecordInParts } from './record-batch.ts';

/** Records that are encoded already, as far as that could be done before their turn; to be sent once or not at all. */
export interface PreparedSend {
  /** As `send` of the producer. */
  send(): Promise<void>;
}

export interface RecordProducer {
  /** Does the work on records now, so that they can go at once when their turn has come. */
  prepare(batches: ReadonlyMap<string, readonly OutgoingRecord[]>): PreparedSend;
  /**
   * Resolves when every replica that must have them has the records; order within a topic and key is kept, also between
   * sends that overlap: when one fails, those waiting behind it with records for the same topic fail too.
   * Rejects with a `PublishError`.
   */
  send(batches: ReadonlyMap<string, readonly OutgoingRecord[]>): Promise<void>;
  close(): Promise<void>;
}

export interface RecordProducerOptions {
  /** Requests that kafkajs may have under way; an idempotent producer never has more than one for a broker. */
  readonly inFlightMax: number;
  readonly requestTimeoutMs: number;
  readonly batchBytesMax?: number;
  readonly roundBytesMax?: number;
}

/** Brokers take batches up to 1 MiB unless told otherwise (message.max.bytes 1,048,588). */
const batchBytesMaxDefault = 1_000_000;
/** Well under the broker's 100 MiB per request, and what a send holds encoded at most, twice. */
const roundBytesMaxDefault = 16_000_000;

interface Sending {
  readonly records: ReadonlyMap<string, readonly OutgoingRecord[]>;
  rounds?: readonly Round[];
  /** Why it must not be sent any more: an earlier one with the same topic failed. */
  heldBackBy?: PublishError;
}

/** Connects with the first send, and anew after a failed one: then kafkajs's sequence numbers may differ from the broker's. */
export const createRecordProducer = (kafka: Kafka, options: RecordProducerOptions): RecordProducer => {
  letBrokersTakeEncodedBatches();
  const limits = {
    batchBytesMax: options.batchBytesMax ?? batchBytesMaxDefault,
    roundBytesMax: options.roundBytesMax ?? roundBytesMaxDefault,
  };
  const partitionCounts = new Map<string, number>();
  const waiting = new Set<Sending>();
  let connected: Promise<Producer> | undefined;
  let lastSent: Promise<void> = Promise.resolve();

  const connect = async (): Promise<Producer> => {
    const producer = kafka.producer({
      idempotent: true,
      maxInFlightRequests: options.inFlightMax,
      allowAutoTopicCreation: false,
      // Asked for each topic at each attempt, which tells how many partitions there are; the choice is made in the plan.
      createPartitioner:
        () =>
        ({ topic, partitionMetadata }) => {
          partitionCounts.set(topic, partitionMetadata.length);
          return 0;
        },
    });
    await producer.connect();
    return producer;
  };

  const disconnect = async (): Promise<void> => {
    const leaving = connected;
    connected = undefined;
    partitionCounts.clear();
    // A producer that never connected has nothing to give back.
    const producer = await leaving?.catch(() => undefined);
    await producer?.disconnect();
  };

  const plan = (sending: Sending): readonly Round[] => {
    sending.rounds ??= planRounds(
      sending.records,
      (topic) => createPartitioner(partitionCounts.get(topic) ?? 1),
      limits,
    );
    return sending.rounds;
  };

  const hand = (producer: Producer, round: Round | undefined, topics: Iterable<string>): Promise<unknown> =>
    producer.sendBatch({
      acks: -1,
      timeout: options.requestTimeoutMs,
      compression: CompressionTypes.None,
      topicMessages: Array.from(topics, (topic) => ({
        topic,
        messages: asMessages(
          round?.filter((batch) => batch.topic === topic) ?? [],
          () => partitionCounts.get(topic) ?? 0,
        ),
      })),
    });

  const isPlannable = ({ records }: Sending): boolean =>
    records.keys().every((topic) => partitionCounts.has(topic));

  const deliver = async (sending: Sending): Promise<void> => {
    connected ??= connect();
    const producer = await connected;
    // With no batches nothing is sent, but kafkajs looks the topics up.
    if (!sending.rounds && !isPlannable(sending)) await hand(producer, undefined, sending.records.keys());
    const rounds = plan(sending);
    for (const [index, round] of rounds.entries()) {
      const answered = hand(producer, round, new Set(round.map(({ topic }) => topic)));
      await Promise.all([answered, encodeAhead(rounds[index + 1])]);
      // kafkajs forgets a partition whose leader moved, between two attempts, to a broker that had answered already.
      const forgotten = round.find(({ state }) => state.kind !== 'acknowledged');
      if (forgotten) throw unanswered(forgotten);
      for (const batch of round) batch.release();
    }
  };

  /** Also for those that were held back themselves, or a third send could overtake the second. */
  const holdBackFollowers = ({ records }: Sending, cause: PublishError): void => {
    for (const later of waiting) {
      if (later.records.keys().some((topic) => records.has(topic))) later.heldBackBy ??= cause;
    }
  };

  const attempt = async (sending: Sending): Promise<void> => {
    waiting.delete(sending);
    try {
      if (sending.heldBackBy) throw sending.heldBackBy;
      await deliver(sending);
    } catch (error) {
      const unacknowledged = unacknowledgedOf(sending.rounds ?? []);
      const failure = sending.heldBackBy
        ? heldBack(sending.heldBackBy, unacknowledged)
        : toPublishError(error, unacknowledged);
      // Best effort: what is wrong with the connection is already in the error.
      if (!sending.heldBackBy) await disconnect().catch(() => undefined);
      // Last, because whoever sends before it knows of the failure has to wait for what failed.
      holdBackFollowers(sending, failure);
      throw failure;
    }
  };

  const prepare = (records: Sending['records']): PreparedSend => {
    const sending: Sending = { records };
    if (isEmpty(records)) return { send: () => Promise.resolve() };
    // The first send of all has to ask for the topics first.
    if (isPlannable(sending)) encode(plan(sending)[0]);
    return {
      send: () => {
        const before = lastSent;
        waiting.add(sending);
        const sent = before.then(() => attempt(sending));
        lastSent = sent.catch(() => undefined);
        return sent;
      },
    };
  };

  return {
    prepare,
    send: (records) => prepare(records).send(),
    close: async () => {
      await lastSent;
      await disconnect();
    },
  };
};

const isEmpty = (records: Sending['records']): boolean =>
  records.values().every(({ length }) => length === 0);

const encode = (round: Round | undefined): void => {
  for (const batch of round ?? []) batch.encode();
};

/** Not before the round on its way has been written to the socket, which takes a few turns of kafkajs. */
const encodeAhead = async (round: Round | undefined): Promise<void> => {
  await setImmediate();
  encode(round);
};

const heldBack = (cause: PublishError, unacknowledged: readonly UnacknowledgedRecords[]): PublishError =>
  new PublishError(cause.code === 'BROKER_UNAVAILABLE' ? cause.code : 'UNKNOWN', {
    retriable: true,
    cause,
    unacknowledged,
  });

const unacknowledgedOf = (rounds: readonly Round[]): readonly UnacknowledgedRecords[] =>
  rounds.flatMap((round) =>
    round.flatMap(({ topic, partition, positions, state }) =>
      state.kind === 'acknowledged'
        ? []
        : [
            {
              topic,
              partition,
              positions,
              reason: state.kind === 'failed' ? state.reason : state.kind,
              isRefused: state.kind === 'failed' && state.isRefused,
            },
          ],
    ),
  );

const unanswered = ({ topic, partition }: EncodedBatch): PublishError =>
  new PublishError('BROKER_UNAVAILABLE', {
    retriable: true,
    cause: new Error(`No broker answered for partition ${partition} of ${topic}`),
  });

/** The topic was made anew, smaller; the next send looks it up again. */
const withoutPartition = ({ topic, partition }: EncodedBatch): PublishError =>
  new PublishError('UNKNOWN', {
    retriable: true,
    cause: new Error(`Topic ${topic} has no partition ${partition} any more`),
  });

const probe = { value: null };

/**
 * kafkajs asks an array of messages for one without a value and then folds it into arrays by partition, copying them at
 * each message. Batches stand in for that array: none is without a value, and they are by partition already.
 */
const asMessages = (batches: readonly EncodedBatch[], partitionCount: () => number): Message[] => {
  const standIn = {
    find: () => undefined,
    reduce: (group: (groups: object, message: Message) => object): object => {
      // Has the partitioner called, and so the number of partitions noted.
      group({}, probe);
      const missing = batches.find(({ partition }) => partition >= partitionCount());
      // kafkajs would leave such records out without a word.
      if (missing) throw withoutPartition(missing);
      return Object.fromEntries(batches.map((batch) => [batch.partition, batch]));
    },
  };
  return standIn as unknown as Message[];
};
