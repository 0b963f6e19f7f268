import { frame } from '../avro/confluent-frame.ts';
import { subjectOf } from '../avro/envelope-schema.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { topicOf, UnknownEventType } from '../event-catalogue/upcasters.ts';
import { contentHash } from '../journal/content-hash.ts';
import { UnknownFingerprint, type WriterSchemas } from '../journal/writer-schemas.ts';
import { isBrokerTrouble, PublishError } from '../kafka/publish-error.ts';
import type { OutgoingRecord, RecordProducer } from '../kafka/record-producer.ts';
import type { SchemaRegistry } from '../registry/schema-registry.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { aggregateKey, type FailedRow, type OutboxRow } from './outbox-source.ts';

export interface PublishPorts {
  readonly producer: RecordProducer;
  readonly registry: SchemaRegistry;
  readonly schemas: WriterSchemas;
  readonly physicalTopic: (topic: TopicName) => string;
  readonly breaker: CircuitBreaker;
  readonly publishTimeoutMs: number;
  /** What a record carries besides key and value. */
  readonly headersOf: (row: OutboxRow) => Pick<OutgoingRecord, 'headers' | 'sharedHeaders'>;
}

export interface PageOutcome {
  /** Rows from the beginning of the page that have their answer: in Kafka, or among the failed. */
  readonly settledCount: number;
  readonly failed: readonly FailedRow[];
  /** Why the rest was not tried, when there is a rest. */
  readonly stopped?: { readonly because: 'circuit-open' | 'broker-trouble'; readonly cause?: Error };
}

/**
 * Publishes a page in order. A batch that fails on a record is split until the bad one stands alone; later rows of its
 * aggregate then wait behind it. Broker trouble is not the rows' fault: those stay where they are and are tried again.
 */
export const publishPage = async (
  ports: PublishPorts,
  rows: readonly OutboxRow[],
  heldBefore: ReadonlySet<string>,
): Promise<PageOutcome> => {
  let held = new Set(heldBefore);
  let failed: FailedRow[] = [];
  const encoded = new Map<OutboxRow, EncodedRow>();
  const arrived = new Set<OutboxRow>();

  const targets = await resolveTargets(ports, rows);

  const sendable = (row: OutboxRow): EncodedRow | undefined => {
    if (arrived.has(row)) return undefined;
    const key = aggregateKey(row);
    if (held.has(key)) {
      failed.push({ row, error: 'An earlier event of this aggregate has not arrived', tried: false });
      return undefined;
    }
    const ready = encoded.get(row) ?? encode(ports, targets, row);
    if (!('error' in ready)) {
      encoded.set(row, ready);
      return ready;
    }
    failed.push({ row, ...ready });
    held.add(key);
    return undefined;
  };

  /** Undefined when all of the slice has its answer, else what stopped it and where. */
  const publish = async (
    start: number,
    end: number,
  ): Promise<(PageOutcome & { stopped: object }) | undefined> => {
    const before = { held: new Set(held), failed: [...failed] };
    // What a slice was told about itself is told again by its halves, or when it is tried again.
    const unlearn = (): void => {
      held = before.held;
      failed = before.failed;
    };
    const ready: EncodedRow[] = [];
    for (const row of rows.slice(start, end)) {
      const record = sendable(row);
      if (record) ready.push(record);
    }
    if (ready.length === 0) return undefined;
    const result = await send(ports, ready);
    if (result.kind === 'sent') return undefined;
    if (result.kind === 'stopped') {
      unlearn();
      return { settledCount: start, failed: inPageOrder(rows, failed), stopped: result };
    }
    const [only] = ready;
    if (ready.length === 1 && only) {
      failed.push({ row: only.row, error: result.cause.message, tried: true });
      held.add(aggregateKey(only.row));
      return undefined;
    }
    for (const { row } of result.acknowledged) arrived.add(row);
    unlearn();
    const middle = start + Math.ceil((end - start) / 2);
    return (await publish(start, middle)) ?? (await publish(middle, end));
  };

  return (await publish(0, rows.length)) ?? { settledCount: rows.length, failed: inPageOrder(rows, failed) };
};

interface EncodedRow {
  readonly row: OutboxRow;
  readonly topic: string;
  readonly record: OutgoingRecord;
}

type SendResult =
  | { readonly kind: 'sent' }
  | { readonly kind: 'refused'; readonly cause: Error; readonly acknowledged: readonly EncodedRow[] }
  | { readonly kind: 'stopped'; readonly because: 'circuit-open' | 'broker-trouble'; readonly cause?: Error };

const send = async (ports: PublishPorts, rows: readonly EncodedRow[]): Promise<SendResult> => {
  const { breaker, producer, publishTimeoutMs } = ports;
  if (!breaker.permits()) return { kind: 'stopped', because: 'circuit-open' };
  const byTopic = Map.groupBy(rows, ({ topic }) => topic);
  const batches = new Map([...byTopic].map(([topic, batch]) => [topic, batch.map(({ record }) => record)]));
  try {
    await within(publishTimeoutMs, producer.send(batches));
    breaker.succeeded();
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
    return { kind: 'refused', cause, acknowledged: acknowledgedOf(byTopic, cause) };
  }
};

/** What arrived although the send as a whole failed: it need not be sent again. */
const acknowledgedOf = (
  byTopic: ReadonlyMap<string, readonly EncodedRow[]>,
  cause: Error,
): readonly EncodedRow[] => {
  const unacknowledged = cause instanceof PublishError ? cause.unacknowledged() : [];
  if (unacknowledged.length === 0) return [];
  const missing = new Set(
    unacknowledged.flatMap(({ topic, positions }) =>
      positions.map((position) => byTopic.get(topic)?.[position]),
    ),
  );
  return [...byTopic.values()].flat().filter((row) => !missing.has(row));
};

interface Target {
  readonly topic: string;
  readonly schemaId: number;
}
/** By event type and writer's schema: a page has thousands of rows and a handful of these. */
type Targets = ReadonlyMap<string, Target | { readonly error: string }>;

const targetKey = (row: OutboxRow): string => `${row.eventType} ${row.schemaFingerprint.toString('latin1')}`;

/** Asked once per page, so that rows are encoded without waiting. A registry that does not answer throws: no row is to blame. */
const resolveTargets = async (ports: PublishPorts, rows: readonly OutboxRow[]): Promise<Targets> => {
  const targets = new Map<string, Target | { readonly error: string }>();
  for (const row of rows) {
    const key = targetKey(row);
    if (!targets.has(key)) targets.set(key, await resolveTarget(ports, row));
  }
  return targets;
};

const resolveTarget = async (
  { registry, schemas, physicalTopic }: PublishPorts,
  row: OutboxRow,
): Promise<Target | { readonly error: string }> => {
  try {
    const topic = topicOf(row.eventType);
    const writer = await schemas.find(row.schemaFingerprint);
    const schemaId = await registry.idOf(subjectOf(topic, writer.fullName), writer.json);
    return { topic: physicalTopic(topic), schemaId };
  } catch (error) {
    // A newer version wrote it, perhaps: its rows wait for that version, and nobody else's do.
    if (error instanceof UnknownEventType || error instanceof UnknownFingerprint)
      return { error: error.message };
    throw error;
  }
};

/** A row as a record, or why it must never be one. */
const encode = (
  { headersOf }: PublishPorts,
  targets: Targets,
  row: OutboxRow,
): EncodedRow | { error: string; tried: boolean; dead: boolean } => {
  if (!contentHash(row).equals(row.contentHash)) {
    return { error: 'The payload is not what the command wrote: its hash differs', tried: true, dead: true };
  }
  const target = targets.get(targetKey(row));
  if (!target) throw new Error(`Outbox row ${row.id} was not looked at before it was encoded`);
  if ('error' in target) return { error: target.error, tried: true, dead: false };
  const value = frame(target.schemaId, row.payload);
  return { row, topic: target.topic, record: { key: row.partitionKey, value, ...headersOf(row) } };
};

/** Halves report in their own time; whoever stores the rows wants them as they were. */
const inPageOrder = (rows: readonly OutboxRow[], failed: readonly FailedRow[]): readonly FailedRow[] => {
  const place = new Map(rows.map((row, index) => [row.id, index]));
  return failed.toSorted((a, b) => (place.get(a.row.id) ?? 0) - (place.get(b.row.id) ?? 0));
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
