import { isBrokerTrouble, PublishError, type TopicRefusal } from '../kafka/publish-error.ts';
import type { OutgoingRecord, PreparedSend, RecordProducer } from '../kafka/record-producer.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { type EncodedPage, type EncodePorts, encodePage } from './encode-page.ts';
import { aggregateKey, type FailedRow, type OutboxRow } from './outbox-source.ts';
import { refusalText } from './refusal.ts';
import type { RelayObserver } from './relay-observer.ts';

export interface PublishPorts extends EncodePorts {
  readonly producer: RecordProducer;
  readonly breaker: CircuitBreaker;
  readonly publishTimeoutMs: number;
  readonly observer?: RelayObserver;
}

export interface PageOutcome {
  /** Rows from the beginning of the page that have their answer: in Kafka, or among the failed. */
  readonly settledCount: number;
  readonly failed: readonly FailedRow[];
  /**
   * Ids of events of the rest that are in Kafka all the same: whoever sends the rest again leaves them out. Not of rows: a
   * server that was promoted gives those to others.
   */
  readonly arrived?: ReadonlySet<string>;
  /** Why the rest was not tried, when there is a rest. */
  readonly stopped?: { readonly because: 'circuit-open' | 'broker-trouble'; readonly cause?: Error };
}

/** A page that is ready to go while another one is still on its way. */
export interface PreparedPage extends EncodedPage {
  /** All of its records, when there is nothing wrong with any. */
  readonly whole: Sending | undefined;
}

/** Rows that go together, by their places in the page. */
interface Sending {
  readonly places: ReadonlyMap<string, readonly number[]>;
  readonly prepared: PreparedSend;
}

export const preparePage = async (ports: PublishPorts, rows: readonly OutboxRow[]): Promise<PreparedPage> => {
  const page = await encodePage(ports, rows);
  const whole = page.faults.size === 0 ? prepareSending(ports, page, [...rows.keys()]) : undefined;
  return { ...page, whole };
};

export const publishPage = async (
  ports: PublishPorts,
  rows: readonly OutboxRow[],
  held: ReadonlySet<string>,
): Promise<PageOutcome> => publishPrepared(ports, await preparePage(ports, rows), { held });

/**
 * Publishes a page in order. The rows of a topic that takes nothing fail together. A batch that fails on a record is split
 * until the bad one stands alone; later rows of its aggregate then wait behind it. Broker trouble is not the rows' fault:
 * those stay where they are and are tried again.
 */
export const publishPrepared = (
  ports: PublishPorts,
  page: PreparedPage,
  before: PageKnowledge,
): Promise<PageOutcome> => new Publication(ports, page, before).publish();

/** What is known of a page's rows before it is sent. */
export interface PageKnowledge {
  /** Aggregates that have a failed row already. */
  readonly held: ReadonlySet<string>;
  /** Ids of rows that an operator dropped. */
  readonly dropped?: ReadonlySet<number>;
  /** Ids of events that an earlier try of the page, by this process, has brought to Kafka. */
  readonly arrived?: ReadonlySet<string>;
}

type Stop = PageOutcome & { readonly stopped: object };

/** One page on its way, and what is known of its rows so far. */
class Publication {
  readonly #ports: PublishPorts;
  readonly #page: PreparedPage;
  #held: Set<string>;
  #failed = new Map<number, FailedRow>();
  /** What needs no sending: it is there already, or an operator dropped it. */
  readonly #arrived: Set<number>;
  readonly #refusedTopics = new Map<string, TopicRefusal>();
  /** The brokers have taken a record of the page, or have said what they have against one: they are at work. */
  #areBrokersAtWork = false;
  /** Permissions of the circuit breaker that have no answer yet. */
  #unanswered = 0;

  constructor(ports: PublishPorts, page: PreparedPage, { held, dropped, arrived }: PageKnowledge) {
    this.#ports = ports;
    this.#page = page;
    this.#held = new Set(held);
    this.#arrived = new Set([
      ...placesOf(page.rows, dropped, ({ id }) => id),
      ...placesOf(page.rows, arrived, ({ eventId }) => eventId),
    ]);
  }

  async publish(): Promise<PageOutcome> {
    const { length } = this.#page.rows;
    const stopped = await this.#slice(0, length);
    this.#answerBreaker('succeeded');
    return stopped ?? { settledCount: length, failed: inPageOrder(this.#failed) };
  }

  /** Undefined when all of the slice has its answer, else what stopped it and where. */
  async #slice(start: number, end: number): Promise<Stop | undefined> {
    const before = { held: new Set(this.#held), failed: new Map(this.#failed) };
    // What a slice was told about itself is told again by its halves, or when it is tried again.
    const unlearn = (): void => {
      this.#held = before.held;
      this.#failed = before.failed;
    };
    const stop = (stopped: NonNullable<PageOutcome['stopped']>): Stop => {
      unlearn();
      const arrived = new Set(
        Array.from(this.#arrived, (place) => (this.#page.rows[place] as OutboxRow).eventId),
      );
      return { settledCount: start, failed: inPageOrder(this.#failed), arrived, stopped };
    };
    const ready: number[] = [];
    for (let place = start; place < end; place++) if (this.#isSendable(place)) ready.push(place);
    if (ready.length === 0) return undefined;
    const result = await this.#send(ready);
    if (result.kind === 'sent') return undefined;
    if (result.kind === 'stopped')
      return stop({ because: result.because, ...(result.cause && { cause: result.cause }) });
    if (this.#noteRefused(result.refusedTopics)) {
      unlearn();
      return this.#slice(start, end);
    }
    if (ready.length === 1) {
      this.#answerBreaker('succeeded');
      this.#fail(ready[0] as number, { error: result.cause.message, tried: true });
      return undefined;
    }
    if (result.isUnknown && (await this.#isTroubleOfBrokers(ready))) {
      this.#answerBreaker('failed');
      return stop({ because: 'broker-trouble', cause: result.cause });
    }
    this.#answerBreaker('succeeded');
    unlearn();
    const middle = start + Math.ceil((end - start) / 2);
    return (await this.#slice(start, middle)) ?? (await this.#slice(middle, end));
  }

  #isSendable(place: number): boolean {
    if (this.#arrived.has(place)) return false;
    const row = this.#page.rows[place] as OutboxRow;
    if (this.#held.size > 0 && this.#held.has(aggregateKey(row))) {
      const error = 'An earlier event of this aggregate has not arrived';
      this.#failed.set(place, { row, error, tried: false });
      return false;
    }
    const fault = this.#faultAt(place);
    if (fault) this.#fail(place, fault);
    return !fault;
  }

  #faultAt(place: number): Omit<FailedRow, 'row'> | undefined {
    const fault = this.#page.faults.get(place);
    if (fault || this.#refusedTopics.size === 0) return fault;
    const topic = this.#page.topics[place] as string;
    const refusal = this.#refusedTopics.get(topic);
    return refusal && { error: refusalText({ kind: 'topic', topic, refusal }), tried: true };
  }

  #fail(place: number, fault: Omit<FailedRow, 'row'>): void {
    const row = this.#page.rows[place] as OutboxRow;
    this.#failed.set(place, { row, ...fault });
    this.#held.add(aggregateKey(row));
  }

  async #send(places: readonly number[]): Promise<SendResult> {
    const { whole, rows } = this.#page;
    const isWhole = places.length === rows.length;
    const sending = (isWhole && whole) || prepareSending(this.#ports, this.#page, places);
    const result = await send(this.#ports, this.#page, sending);
    // Of a partition these are the first ones, since one batch of it goes after the other: nothing overtakes.
    if (result.kind !== 'sent') for (const place of result.acknowledged) this.#arrived.add(place);
    if (result.kind === 'refused' && result.isUnknown) this.#unanswered++;
    this.#areBrokersAtWork ||= isJudgement(result);
    return result;
  }

  /** For the sends of which nobody could say at once whose fault it was. */
  #answerBreaker(answer: 'succeeded' | 'failed'): void {
    for (; this.#unanswered > 0; this.#unanswered--) this.#ports.breaker[answer]();
  }

  /** Whether this is news. */
  #noteRefused(topics: ReadonlyMap<string, TopicRefusal>): boolean {
    const knownBefore = this.#refusedTopics.size;
    for (const [topic, refusal] of topics) this.#refusedTopics.set(topic, refusal);
    return this.#refusedTopics.size > knownBefore;
  }

  /**
   * An error that nobody knows may be anybody's fault. Before a page is put aside row by row, a few rows of it are sent
   * alone: when the brokers have nothing else to say to any of them, it is not the rows.
   */
  async #isTroubleOfBrokers(places: readonly number[]): Promise<boolean> {
    const witnesses = chooseWitnesses(this.#page.rows, places);
    if (this.#areBrokersAtWork || witnesses.length < witnessesMin) return false;
    for (const place of witnesses) {
      const result = await this.#send([place]);
      if (result.kind === 'sent') this.#arrived.add(place);
      if (result.kind === 'stopped') return true;
      if (this.#areBrokersAtWork) return false;
    }
    return true;
  }
}

/** Rows that have to fail alike before it is not them; more than these make it no surer. */
const witnessesMin = 2;
const witnessesMax = 4;

/** Spread over the rows, each the first of its aggregate: it overtakes nothing. */
const chooseWitnesses = (rows: readonly OutboxRow[], places: readonly number[]): readonly number[] => {
  const firsts = new Map<string, number>();
  for (const place of places) {
    const key = aggregateKey(rows[place] as OutboxRow);
    if (!firsts.has(key)) firsts.set(key, place);
  }
  const candidates = [...firsts.values()];
  const count = Math.min(witnessesMax, candidates.length);
  const stride = (candidates.length - 1) / Math.max(1, count - 1);
  return Array.from({ length: count }, (_, index) => candidates[Math.round(index * stride)] as number);
};

const placesOf = <Id>(
  rows: readonly OutboxRow[],
  ids: ReadonlySet<Id> | undefined,
  idOf: (row: OutboxRow) => Id,
): readonly number[] =>
  ids && ids.size > 0 ? [...rows.keys()].filter((place) => ids.has(idOf(rows[place] as OutboxRow))) : [];

/** Halves report in their own time; whoever stores the rows wants them as they were. */
const inPageOrder = (failed: ReadonlyMap<number, FailedRow>): readonly FailedRow[] =>
  [...failed].toSorted(([one], [other]) => one - other).map(([, row]) => row);

const prepareSending = (
  { producer }: PublishPorts,
  { records, topics }: EncodedPage,
  places: readonly number[],
): Sending => {
  const placesByTopic = new Map<string, number[]>();
  const batches = new Map<string, OutgoingRecord[]>();
  for (const place of places) {
    const record = records[place];
    const topic = topics[place];
    if (!record || topic === undefined) continue;
    const batch = batches.get(topic);
    if (batch) {
      batch.push(record);
      placesByTopic.get(topic)?.push(place);
    } else {
      batches.set(topic, [record]);
      placesByTopic.set(topic, [place]);
    }
  }
  return { places: placesByTopic, prepared: producer.prepare(batches) };
};

type SendResult =
  | { readonly kind: 'sent' }
  | {
      readonly kind: 'refused';
      readonly cause: Error;
      readonly acknowledged: ReadonlySet<number>;
      readonly refusedTopics: ReadonlyMap<string, TopicRefusal>;
      /** Nobody can say whose fault it is. */
      readonly isUnknown: boolean;
    }
  | {
      readonly kind: 'stopped';
      readonly because: 'circuit-open' | 'broker-trouble';
      readonly cause?: Error;
      readonly acknowledged: ReadonlySet<number>;
    };

const isJudgement = (result: SendResult): boolean =>
  result.kind === 'sent' ||
  (result.kind === 'refused' && (!result.isUnknown || result.acknowledged.size > 0));

const send = async (
  ports: PublishPorts,
  { rows }: EncodedPage,
  { places, prepared }: Sending,
): Promise<SendResult> => {
  const { breaker, publishTimeoutMs, observer } = ports;
  if (!breaker.permits()) return { kind: 'stopped', because: 'circuit-open', acknowledged: new Set() };
  const tell = (isIn: (place: number) => boolean): void => {
    for (const [topic, ofTopic] of places)
      observer?.published(
        topic,
        ofTopic.filter(isIn).map((place) => rows[place] as OutboxRow),
      );
  };
  try {
    await prepared.send({ timeoutMs: publishTimeoutMs });
    breaker.succeeded();
    tell(() => true);
    return { kind: 'sent' };
  } catch (error) {
    const cause = error as Error;
    const acknowledged = acknowledgedOf(places, cause);
    tell((place) => acknowledged.has(place));
    if (isBrokerTrouble(cause)) {
      breaker.failed();
      return { kind: 'stopped', because: 'broker-trouble', cause, acknowledged };
    }
    if (cause instanceof PublishError && cause.retriable) {
      // Sequence numbers that no longer match: a new producer heals that, and neither broker nor record is to blame.
      breaker.succeeded();
      return { kind: 'stopped', because: 'broker-trouble', cause, acknowledged };
    }
    const known = cause instanceof PublishError ? cause : undefined;
    const isUnknown = known === undefined || known.code === 'UNKNOWN';
    // The broker is well: it has looked at the records and does not want them. Otherwise that is still to be found out.
    if (!isUnknown) breaker.succeeded();
    return {
      kind: 'refused',
      cause,
      acknowledged,
      refusedTopics: known?.refusedTopics ?? new Map(),
      isUnknown,
    };
  }
};

/** What arrived although the send as a whole failed: it need not be sent again. */
const acknowledgedOf = (
  places: ReadonlyMap<string, readonly number[]>,
  cause: Error,
): ReadonlySet<number> => {
  const unacknowledged = cause instanceof PublishError ? cause.unacknowledged() : [];
  if (unacknowledged.length === 0) return new Set();
  const arrived = new Set([...places.values()].flat());
  for (const { topic, positions } of unacknowledged) {
    const ofTopic = places.get(topic);
    for (const position of positions) arrived.delete(ofTopic?.[position] ?? -1);
  }
  return arrived;
};
