import { CompressionTypes, type Kafka, type Producer } from 'kafkajs';
import { atMost } from './at-most.ts';
import { asMessages } from './batches-as-messages.ts';
import type { Round } from './plan-rounds.ts';
import { PublishError } from './publish-error.ts';

export interface ConnectionOptions {
  /** Requests that kafkajs may have under way; an idempotent producer never has more than one for a broker. */
  readonly inFlightMax: number;
  /** Time the leader has to have a batch stored by all who must, and to answer. */
  readonly produceTimeoutMs: number;
}

/** Time that answers under way have when a send has failed, and kafkajs has to end its connections. */
const partingMs = 2000;

/**
 * One producer of kafkajs, from its first send to its end. After the end nothing is sent through it any more: kafkajs by
 * itself would connect anew and try again what it had begun.
 */
export class ProducerConnection {
  readonly #kafka: Kafka;
  readonly #options: ConnectionOptions;
  readonly #partitionCounts = new Map<string, number>();
  #connected: Promise<Producer> | undefined;
  /** Settles, and never fails, when kafkajs is done with what it was last given. */
  #underWay: Promise<void> = Promise.resolve();
  #round: Round = [];
  #isOver = false;

  constructor(kafka: Kafka, options: ConnectionOptions) {
    this.#kafka = kafka;
    this.#options = options;
  }

  /** Undefined for a topic that was not looked up yet. */
  partitionCount(topic: string): number | undefined {
    return this.#partitionCounts.get(topic);
  }

  /** With no batches nothing is sent, but kafkajs looks the topics up. */
  async lookUp(topics: readonly string[]): Promise<void> {
    await this.#hand(topics, []);
  }

  /** Resolves when kafkajs is content; what became of the batches is noted in them. */
  async send(round: Round): Promise<void> {
    await this.#hand([...new Set(round.map(({ topic }) => topic))], round);
  }

  /**
   * For good. Answers that are under way are waited for, but not for long; from one that is stuck none is expected.
   * What the brokers have received may still be written afterwards: whoever sends it again makes a duplicate at most.
   */
  async end({ isStuck }: { isStuck: boolean }): Promise<void> {
    this.#isOver = true;
    if (isStuck) this.#revoke();
    let isGone = false;
    const gone = this.#disconnect().then(() => {
      isGone = true;
    });
    // Best effort: what is wrong with the connection is already in the error.
    await atMost(
      partingMs,
      gone.catch(() => undefined),
    );
    if (isGone && !isStuck) return;
    this.#revoke();
    // What was cut off kafkajs tries again once, for which it connects anew.
    void this.#underWay.then(() => this.#disconnect()).catch(() => undefined);
  }

  async #hand(topics: readonly string[], round: Round): Promise<void> {
    this.#connected ??= this.#connect();
    const producer = await this.#connected;
    if (this.#isOver) throw new PublishError('BROKER_UNAVAILABLE', { retriable: true, cause: givenUp() });
    this.#round = round;
    const answered = producer.sendBatch({
      acks: -1,
      timeout: this.#options.produceTimeoutMs,
      compression: CompressionTypes.None,
      topicMessages: topics.map((topic) => ({
        topic,
        messages: asMessages(
          round.filter((batch) => batch.topic === topic),
          () => this.#partitionCounts.get(topic) ?? 0,
        ),
      })),
    });
    this.#underWay = answered.then(
      () => undefined,
      () => undefined,
    );
    await answered;
  }

  async #connect(): Promise<Producer> {
    const producer = this.#kafka.producer({
      idempotent: true,
      maxInFlightRequests: this.#options.inFlightMax,
      allowAutoTopicCreation: false,
      // Asked for each topic at each attempt, which tells how many partitions there are; the choice is made in the plan.
      createPartitioner:
        () =>
        ({ topic, partitionMetadata }) => {
          this.#partitionCounts.set(topic, partitionMetadata.length);
          return 0;
        },
    });
    await producer.connect();
    return producer;
  }

  async #disconnect(): Promise<void> {
    // A producer that never connected has nothing to give back.
    const producer = await this.#connected?.catch(() => undefined);
    await producer?.disconnect();
  }

  #revoke(): void {
    for (const batch of this.#round) batch.revoke();
  }
}

const givenUp = (): Error => new Error('The producer was given up');
