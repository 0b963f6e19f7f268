import type { Kafka } from 'kafkajs';
import { atMost } from './at-most.ts';
import { type TopicRefusal, topicRefusalOf } from './publish-error.ts';

/** Time for which a refusal is believed. Asking takes milliseconds then: kafkajs's patience was spent when it was found. */
const believedMs = 1000;
/** Brokers that take longer to tell of a topic are in trouble, which the send itself finds out. */
const lookUpTimeoutMs = 5000;

type Refusals = ReadonlyMap<string, TopicRefusal>;

/**
 * Topics that take no records at the moment. kafkajs waits for seconds for a topic that may be about to appear; that is done
 * once, and what comes later for the same topic does not wait again, nor does it keep others waiting.
 */
export class RefusedTopics {
  readonly #kafka: Kafka;
  readonly #clock: () => number;
  readonly #found = new Map<string, { readonly refusal: TopicRefusal; readonly at: number }>();

  constructor(kafka: Kafka, clock: () => number = Date.now) {
    this.#kafka = kafka;
    this.#clock = clock;
  }

  /** While nothing is refused there is nothing to ask. */
  get isEmpty(): boolean {
    return this.#found.size === 0;
  }

  /** Which of these are known to be refused; one that was found so a while ago is looked up again. */
  async among(topics: readonly string[]): Promise<Refusals> {
    const known = topics.filter((topic) => this.#found.has(topic));
    const isOld = (topic: string): boolean => this.#clock() - (this.#found.get(topic)?.at ?? 0) >= believedMs;
    const old = known.filter(isOld);
    if (old.length > 0) await this.lookUp(old);
    return this.#refused(known);
  }

  /** Asks the brokers which of these are refused. */
  async lookUp(topics: readonly string[]): Promise<Refusals> {
    const refusals = await lookUpRefusals(this.#kafka, topics);
    for (const topic of topics) {
      const refusal = refusals.get(topic);
      if (refusal) this.note(topic, refusal);
      else this.#found.delete(topic);
    }
    return this.#refused(topics);
  }

  note(topic: string, refusal: TopicRefusal): void {
    this.#found.set(topic, { refusal, at: this.#clock() });
  }

  #refused(topics: readonly string[]): Refusals {
    return new Map(
      topics.flatMap((topic) => {
        const found = this.#found.get(topic);
        return found ? [[topic, found.refusal]] : [];
      }),
    );
  }
}

/** One after the other, because brokers asked for several do not say which one they mean. */
const lookUpRefusals = async (kafka: Kafka, topics: readonly string[]): Promise<Refusals> => {
  const refusals = new Map<string, TopicRefusal>();
  // Its own connection: a new one knows nothing of before, and asks once where a producer asks again and again.
  const admin = kafka.admin();
  const lookUp = async (): Promise<void> => {
    await admin.connect();
    for (const topic of topics) {
      const refusal = await admin.fetchTopicMetadata({ topics: [topic] }).then(
        () => undefined,
        (error: unknown) => topicRefusalOf(error),
      );
      if (refusal) refusals.set(topic, refusal);
    }
  };
  // Whatever goes wrong in it says nothing about a topic, and the send meets it as well.
  await atMost(
    lookUpTimeoutMs,
    lookUp().catch(() => undefined),
  );
  void admin.disconnect().catch(() => undefined);
  return refusals;
};
