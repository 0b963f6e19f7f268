import { frameHeader } from '../avro/confluent-frame.ts';
import { subjectOf } from '../avro/envelope-schema.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import { topicOf, UnknownEventType } from '../event-catalogue/upcasters.ts';
import { UnknownFingerprint, type WriterSchemas } from '../journal/writer-schemas.ts';
import type { HeaderBlock } from '../kafka/header-block.ts';
import type { RecordInPlace, RecordShape } from '../kafka/record-batch.ts';
import { IncompatibleSchema } from '../registry/incompatible-schema.ts';
import type { SchemaRegistry } from '../registry/schema-registry.ts';
import type { FailedRow, OutboxRow } from './outbox-source.ts';
import { refusalText } from './refusal.ts';
import { type RowInPlace, rowInPlaceOf } from './row-in-place.ts';

export interface EncodePorts {
  readonly registry: SchemaRegistry;
  readonly schemas: WriterSchemas;
  readonly physicalTopic: (topic: TopicName) => string;
  /** The headers that records of a row's kind share, with the event's id last; none when they are to have none. */
  readonly headersOf: (row: OutboxRow) => HeaderBlock | undefined;
}

type Fault = Omit<FailedRow, 'row'>;

export interface EncodedPage {
  readonly rows: readonly OutboxRow[];
  /** In the order of the rows; a row that must not be sent has none. */
  readonly records: readonly (RecordInPlace | undefined)[];
  /** Where each record goes. */
  readonly topics: readonly string[];
  /** Why a row has no record. */
  readonly faults: ReadonlyMap<number, Fault>;
}

/** What the records of one kind have in common. */
interface Target {
  readonly topic: string;
  readonly shape: RecordShape;
}
type TargetOrFault = Target | { readonly fault: Fault };

/**
 * Makes records of rows, without a copy: they refer to the bytes the rows came in. A page has thousands of rows of a
 * handful of kinds. A registry that does not answer throws: no row is to blame.
 */
export const encodePage = async (ports: EncodePorts, rows: readonly OutboxRow[]): Promise<EncodedPage> => {
  const findTarget = createTargetFinder(ports);
  const records: (RecordInPlace | undefined)[] = [];
  const topics: string[] = [];
  const faults = new Map<number, Fault>();
  for (const row of rows) {
    const inPlace = row.inPlace ?? rowInPlaceOf(row);
    const found = findTarget(row, inPlace);
    const target = found instanceof Promise ? await found : found;
    const fault = faultOf(inPlace, target);
    if (fault) faults.set(records.length, fault);
    topics.push('fault' in target ? '' : target.topic);
    records.push(fault || 'fault' in target ? undefined : toRecord(row, inPlace, target));
  }
  return { rows, records, topics, faults };
};

/** Waits only for a kind that is new to the page; rows of one kind tend to come together. */
const createTargetFinder = (ports: EncodePorts) => {
  const targets = new Map<string, TargetOrFault>();
  let last: { readonly inPlace: RowInPlace; readonly target: TargetOrFault } | undefined;

  const resolve = async (row: OutboxRow, inPlace: RowInPlace): Promise<TargetOrFault> => {
    const target = await resolveTarget(ports, row);
    targets.set(inPlace.kind, target);
    return target;
  };
  return (row: OutboxRow, inPlace: RowInPlace): TargetOrFault | Promise<TargetOrFault> => {
    if (last && inPlace.isOfKindOf(last.inPlace)) return last.target;
    const target = targets.get(inPlace.kind);
    if (!target) return resolve(row, inPlace);
    last = { inPlace, target };
    return target;
  };
};

const tampered: Fault = {
  error: 'The payload is not what the command wrote: its hash differs',
  tried: true,
  dead: true,
  tampered: true,
};

const faultOf = (inPlace: RowInPlace, target: TargetOrFault): Fault | undefined => {
  if (!inPlace.isIntact()) return tampered;
  return 'fault' in target ? target.fault : undefined;
};

const toRecord = (row: OutboxRow, inPlace: RowInPlace, { shape }: Target): RecordInPlace =>
  inPlace.toRecord(shape, shape.sharedHeaders && traceOf(row));

/** Only of a request whose trace is sampled: nobody could find another one. */
const traceOf = ({ traceparent }: OutboxRow): { readonly traceparent: string } | undefined =>
  traceparent && isSampled(traceparent) ? { traceparent } : undefined;

/** The lowest bit of the flags, which are two hexadecimal digits at the end. */
const isSampled = (traceparent: string): boolean => '13579bdf'.includes(traceparent.slice(-1));

const resolveTarget = async (ports: EncodePorts, row: OutboxRow): Promise<TargetOrFault> => {
  const { registry, schemas, physicalTopic, headersOf } = ports;
  try {
    const topic = topicOf(row.eventType);
    const writer = await schemas.find(row.schemaFingerprint);
    const schemaId = await registry.idOf(subjectOf(topic, writer.fullName), writer.json);
    const shape = { valuePrefix: frameHeader(schemaId), sharedHeaders: headersOf(row) };
    return { topic: physicalTopic(topic), shape };
  } catch (error) {
    const reason = faultOfKind(error, row);
    if (reason === undefined) throw error;
    return { fault: { error: reason, tried: true, dead: false } };
  }
};

/** Why rows of this kind wait, and nobody else's do; undefined when no row is to blame. */
const faultOfKind = (error: unknown, { eventType }: OutboxRow): string | undefined => {
  // A newer version wrote it, perhaps, which brings what is needed.
  if (error instanceof UnknownEventType || error instanceof UnknownFingerprint) return error.message;
  if (!(error instanceof IncompatibleSchema)) return undefined;
  const reasons = error.reasons.join('; ').replace(/\s+/g, ' ') || 'it does not say why';
  return refusalText({ kind: 'schema', eventType, subject: error.subject, reasons });
};
