import { isBrokerTrouble, PublishError } from '../kafka/publish-error.ts';
import type { OutgoingRecord, PreparedSend, RecordProducer } from '../kafka/record-producer.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { type EncodedPage, type EncodePorts, encodePage } from './encode-page.ts';
import { aggregateKey, type FailedRow, type OutboxRow } from './outbox-source.ts';
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
  heldBefore: ReadonlySet<string>,
): Promise<PageOutcome> => publishPrepared(ports, await preparePage(ports, rows), heldBefore);

/**
 * Publishes a page in order. A batch that fails on a record is split until the bad one stands alone; later rows of its
 * aggregate then wait behind it. Broker trouble is not the rows' fault: those stay where they are and are tried again.
 */
export const publishPrepared = async (
  ports: PublishPorts,
  page: PreparedPage,
  heldBefore: ReadonlySet<string>,
  dropped: ReadonlySet<number> = new Set(),
): Promise<PageOutcome> => {
  const { rows } = page;
  let held = new Set(heldBefore);
  let failed = new Map<number, FailedRow>();
  /** What needs no sending: it is there already, or an operator dropped it. */
  const arrived = placesOf(rows, dropped);

  const isSendable = (place: number): boolean => {
    if (arrived.has(place)) return false;
    const row = rows[place] as OutboxRow;
    if (held.size > 0 && held.has(aggregateKey(row))) {
      const error = 'An earlier event of this aggregate has not arrived';
      failed.set(place, { row, error, tried: false });
      return false;
    }
    const fault = page.faults.get(place);
    if (!fault) return true;
    failed.set(place, { row, ...fault });
    held.add(aggregateKey(row));
    return false;
  };

  /** Undefined when all of the slice has its answer, else what stopped it and where. */
  const publish = async (
    start: number,
    end: number,
  ): Promise<(PageOutcome & { stopped: object }) | undefined> => {
    const before = { held: new Set(held), failed: new Map(failed) };
    // What a slice was told about itself is told again by its halves, or when it is tried again.
    const unlearn = (): void => {
      held = before.held;
      failed = before.failed;
    };
    const ready: number[] = [];
    for (let place = start; place < end; place++) if (isSendable(place)) ready.push(place);
    if (ready.length === 0) return undefined;
    const isWhole = page.whole !== undefined && ready.length === rows.length;
    const result = await send(ports, page, isWhole ? page.whole : prepareSending(ports, page, ready));
    if (result.kind === 'sent') return undefined;
    if (result.kind === 'stopped') {
      unlearn();
      return { settledCount: start, failed: inPageOrder(failed), stopped: result };
    }
    const [only] = ready;
    if (ready.length === 1 && only !== undefined) {
      const row = rows[only] as OutboxRow;
      failed.set(only, { row, error: result.cause.message, tried: true });
      held.add(aggregateKey(row));
      return undefined;
    }
    for (const place of result.acknowledged) arrived.add(place);
    unlearn();
    const middle = start + Math.ceil((end - start) / 2);
    return (await publish(start, middle)) ?? (await publish(middle, end));
  };

  return (await publish(0, rows.length)) ?? { settledCount: rows.length, failed: inPageOrder(failed) };
};

const placesOf = (rows: readonly OutboxRow[], ids: ReadonlySet<number>): Set<number> =>
  new Set(ids.size === 0 ? [] : [...rows.keys()].filter((place) => ids.has((rows[place] as OutboxRow).id)));

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
  | { readonly kind: 'refused'; readonly cause: Error; readonly acknowledged: ReadonlySet<number> }
  | { readonly kind: 'stopped'; readonly because: 'circuit-open' | 'broker-trouble'; readonly cause?: Error };

const send = async (
  ports: PublishPorts,
  { rows }: EncodedPage,
  { places, prepared }: Sending,
): Promise<SendResult> => {
  const { breaker, publishTimeoutMs, observer } = ports;
  if (!breaker.permits()) return { kind: 'stopped', because: 'circuit-open' };
  const tell = (isIn: (place: number) => boolean): void => {
    for (const [topic, ofTopic] of places)
      observer?.published(
        topic,
        ofTopic.filter(isIn).map((place) => rows[place] as OutboxRow),
      );
  };
  try {
    await within(publishTimeoutMs, prepared.send());
    breaker.succeeded();
    tell(() => true);
    return { kind: 'sent' };
  } catch (error) {
    const cause = error as Error;
    if (cause instanceof PublishTimeout || isBrokerTrouble(cause)) {
      breaker.failed();
      return { kind: 'stopped', because: 'broker-trouble', cause };
    }
    if (cause instanceof PublishError && cause.retriable) {
      // Sequence numbers that no longer match: a new producer heals that, and neither broker nor record is to blame.
      breaker.succeeded();
      return { kind: 'stopped', because: 'broker-trouble', cause };
    }
    // The broker is well: it has looked at the records and does not want them.
    breaker.succeeded();
    const acknowledged = acknowledgedOf(places, cause);
    tell((place) => acknowledged.has(place));
    return { kind: 'refused', cause, acknowledged };
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

export class PublishTimeout extends Error {
  override readonly name = 'PublishTimeout';
}

/** What is not known to have arrived in time counts as not sent: a duplicate is allowed, a loss is not. */
const within = async <T>(timeMs: number, work: Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new PublishTimeout(`Kafka did not acknowledge a batch within ${timeMs} ms`)),
      timeMs,
    );
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
};
