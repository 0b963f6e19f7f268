import { setImmediate } from 'node:timers/promises';
import type { Kafka } from 'kafkajs';
import { within } from './at-most.ts';
import type { EncodedBatch } from './encoded-batch.ts';
import { createPartitioner, planRounds, type Round, type RoundLimits } from './plan-rounds.ts';
import { ProducerConnection } from './producer-connection.ts';
import {
  PublishError,
  type TopicRefusal,
  toPublishError,
  topicRefusalOf,
  type UnacknowledgedRecords,
} from './publish-error.ts';
import type { OutgoingRecord } from './record-batch.ts';
import type { PreparedSend, RecordProducerOptions } from './record-producer.ts';
import { RefusedTopics } from './refused-topics.ts';

/** Brokers take batches up to 1 MiB unless told otherwise (message.max.bytes 1,048,588). */
const batchBytesMaxDefault = 1_000_000;
/** Well under the broker's 100 MiB per request, and what a send holds encoded at most, twice. */
const roundBytesMaxDefault = 16_000_000;
/** Longer than kafkajs tries by itself, with the settings as they come. */
const sendTimeoutMsDefault = 150_000;

interface Sending {
  readonly records: ReadonlyMap<string, readonly OutgoingRecord[]>;
  rounds?: readonly Round[];
  /** Why it must not be sent any more: an earlier one with the same topic failed. */
  heldBackBy?: PublishError;
}

/** One send after the other, each through kafkajs's producer of the moment. */
export class SendQueue {
  readonly #kafka: Kafka;
  readonly #options: RecordProducerOptions;
  readonly #limits: RoundLimits;
  readonly #refusedTopics: RefusedTopics;
  readonly #waiting = new Set<Sending>();
  #connection: ProducerConnection;
  #lastSent: Promise<void> = Promise.resolve();

  constructor(kafka: Kafka, options: RecordProducerOptions) {
    this.#kafka = kafka;
    this.#options = options;
    this.#limits = {
      batchBytesMax: options.batchBytesMax ?? batchBytesMaxDefault,
      roundBytesMax: options.roundBytesMax ?? roundBytesMaxDefault,
    };
    this.#refusedTopics = new RefusedTopics(kafka);
    this.#connection = new ProducerConnection(kafka, options);
  }

  prepare(records: Sending['records']): PreparedSend {
    const sending: Sending = { records };
    if (isEmpty(records)) return { send: () => Promise.resolve() };
    // The first send of all has to ask for the topics first.
    if (this.#isPlannable(sending)) encode(this.#plan(sending)[0]);
    return { send: ({ timeoutMs = sendTimeoutMsDefault } = {}) => this.#enqueue(sending, timeoutMs) };
  }

  /** kafkajs would go on with what it knows for minutes. */
  renew(): Promise<void> {
    const renewed = this.#lastSent.then(async () => {
      const before = this.#connection;
      this.#connection = new ProducerConnection(this.#kafka, this.#options);
      await before.end({ isStuck: false });
    });
    this.#lastSent = renewed.catch(() => undefined);
    return renewed;
  }

  async close(): Promise<void> {
    await this.#lastSent;
    await this.#connection.end({ isStuck: false });
  }

  #enqueue(sending: Sending, timeoutMs: number): Promise<void> {
    const before = this.#lastSent;
    this.#waiting.add(sending);
    const sent = before.then(() => this.#attempt(sending, timeoutMs));
    this.#lastSent = sent.catch(() => undefined);
    return sent;
  }

  async #attempt(sending: Sending, timeoutMs: number): Promise<void> {
    this.#waiting.delete(sending);
    try {
      if (sending.heldBackBy) throw heldBack(sending.heldBackBy, unacknowledgedOf(sending));
      if (!this.#refusedTopics.isEmpty) await this.#requireTopics(sending);
      await this.#deliverInTime(sending, timeoutMs);
    } catch (error) {
      // Last, because whoever sends before it knows of the failure has to wait for what failed.
      this.#holdBackFollowers(sending, error as PublishError);
      throw error;
    }
  }

  /** Before anything is sent: what arrived of the other topics would have to be told apart from what did not. */
  async #requireTopics({ records }: Sending): Promise<void> {
    const refused = await this.#refusedTopics.among([...records.keys()]);
    if (refused.size > 0) throw refusedBy(refused);
  }

  /** A failed send leaves kafkajs's sequence numbers different from the broker's, perhaps: the next one has a new producer. */
  async #deliverInTime(sending: Sending, timeoutMs: number): Promise<void> {
    const connection = this.#connection;
    try {
      await within(timeoutMs, this.#deliver(connection, sending), (timeMs) => new SendTimedOut(timeMs));
    } catch (error) {
      // A producer that is stuck is given up, and whatever it still has is not sent any more, before another one sends.
      await connection.end({ isStuck: error instanceof SendTimedOut });
      this.#connection = new ProducerConnection(this.#kafka, this.#options);
      throw await this.#explain(error, sending);
    }
  }

  async #deliver(connection: ProducerConnection, sending: Sending): Promise<void> {
    if (!sending.rounds && !this.#isPlannable(sending)) await connection.lookUp([...sending.records.keys()]);
    const rounds = this.#plan(sending);
    for (const [index, round] of rounds.entries()) {
      await Promise.all([connection.send(round), encodeAhead(rounds[index + 1])]);
      // kafkajs forgets a partition whose leader moved, between two attempts, to a broker that had answered already. With the
      // same producer the new leader knows what the old one had passed on to it.
      const forgotten = unansweredOf(round);
      if (forgotten.length > 0) await connection.send(forgotten);
      const [stillForgotten] = unansweredOf(round);
      if (stillForgotten) throw unanswered(stillForgotten);
      for (const batch of round) batch.release();
    }
  }

  /** Brokers that speak of a topic do not say which one they mean, and it may be there by now. */
  async #explain(error: unknown, sending: Sending): Promise<PublishError> {
    const unacknowledged = unacknowledgedOf(sending);
    if (!topicRefusalOf(error)) return toPublishError(error, unacknowledged);
    const refused = new Map(await this.#refusedTopics.lookUp([...sending.records.keys()]));
    // Who may look a topic up may not be allowed to write to it.
    for (const { topic, reason } of unacknowledged) {
      if (reason !== 'TOPIC_AUTHORIZATION_FAILED' || refused.has(topic)) continue;
      this.#refusedTopics.note(topic, 'forbidden');
      refused.set(topic, 'forbidden');
    }
    if (refused.size > 0) return refusedBy(refused, { cause: error, unacknowledged });
    // The topic is there, and a broker that ought to know has not heard of it yet.
    return new PublishError('BROKER_UNAVAILABLE', { retriable: true, cause: error, unacknowledged });
  }

  /** Also for those that were held back themselves, or a third send could overtake the second. */
  #holdBackFollowers({ records }: Sending, cause: PublishError): void {
    for (const later of this.#waiting) {
      if (later.records.keys().some((topic) => records.has(topic))) later.heldBackBy ??= cause;
    }
  }

  #isPlannable({ records }: Sending): boolean {
    return records.keys().every((topic) => this.#connection.partitionCount(topic) !== undefined);
  }

  #plan(sending: Sending): readonly Round[] {
    const connection = this.#connection;
    sending.rounds ??= planRounds(
      sending.records,
      (topic) => createPartitioner(connection.partitionCount(topic) ?? 1),
      this.#limits,
    );
    return sending.rounds;
  }
}

/** It counts as trouble of the brokers: nobody has said anything about the records. */
class SendTimedOut extends PublishError {
  constructor(timeMs: number) {
    const cause = new Error(`Kafka did not acknowledge a batch within ${timeMs} ms`);
    super('BROKER_UNAVAILABLE', { retriable: true, cause });
  }
}

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

const refusedBy = (
  refusedTopics: ReadonlyMap<string, TopicRefusal>,
  details: { cause?: unknown; unacknowledged?: readonly UnacknowledgedRecords[] } = {},
): PublishError => {
  const cause = details.cause ?? new Error(`No records are taken in ${[...refusedTopics.keys()].join(', ')}`);
  return new PublishError('REFUSED', { retriable: false, ...details, cause, refusedTopics });
};

const unacknowledgedOf = ({ rounds = [] }: Sending): readonly UnacknowledgedRecords[] =>
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

const unansweredOf = (round: Round): Round => round.filter(({ state }) => state.kind !== 'acknowledged');

const unanswered = ({ topic, partition }: EncodedBatch): PublishError =>
  new PublishError('BROKER_UNAVAILABLE', {
    retriable: true,
    cause: new Error(`No broker answered for partition ${partition} of ${topic}`),
  });
