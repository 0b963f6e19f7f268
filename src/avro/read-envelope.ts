import type { Type } from 'avsc';
import { newestTypeOf, UnknownEventType } from '../event-catalogue/upcasters.ts';
import { DecodingError, decodeWithin } from './decode-envelope.ts';
import { type Envelope, type EventEnvelope, provenanceFields } from './envelope.ts';
import {
  type AvroRecord,
  type EnvelopeSchema,
  envelopeSchemaOf,
  fingerprintOf,
  parseSchema,
  readerSchemaOf,
} from './envelope-schema.ts';
import { upcastEnvelope } from './upcast-envelope.ts';

/** Reads what one writer's schema has written, from `start` to `end`, which are the whole buffer unless they are given. */
export type Reader<Shape> = (bytes: Buffer, start?: number, end?: number) => Shape;
export type EnvelopeReader = Reader<Envelope>;
export type EventReader = Reader<EventEnvelope>;

/**
 * Reads an envelope as today's version would have written it: fields the writer did not know have their defaults,
 * fields this version does not know are gone, and a type of the past has become its successor.
 */
export const readEnvelope = (writer: Type, bytes: Buffer, start = 0): Envelope =>
  envelopeReaderOf(writer)(bytes, start);

/** The reader for a writer's schema, for whoever reads many envelopes of it. */
export const envelopeReaderOf = (writer: Type): EnvelopeReader => inFull(writer);

/** The same for projections: without what they do not need. */
export const eventReaderOf = (writer: Type): EventReader => withoutProvenance(writer);

/** Makes one reader per writer's type: whoever finds a writer's schema keeps its type. */
const readersOf = <Shape extends EventEnvelope>(
  shapeOf: (schema: EnvelopeSchema) => Type,
): ((writer: Type) => Reader<Shape>) => {
  const readers = new WeakMap<Type, Reader<Shape>>();
  return (writer) => {
    const known = readers.get(writer);
    if (known) return known;
    const schema = readerSchemaOf(writer.name ?? '');
    if (!schema) {
      throw new UnknownEventType(
        `${writer.name ?? 'A nameless record'} is no envelope that this version knows`,
      );
    }
    const reader = upToDate(schema, decoderOf<Shape>(shapeOf(schema), writer), shapeOf);
    readers.set(writer, reader);
    return reader;
  };
};

const decoderOf = <Shape>(type: Type, writer: Type): Reader<Shape> => {
  // What was written as it is read needs nothing in between.
  if (fingerprintOf(writer) === fingerprintOf(type)) {
    return (bytes, start = 0, end = bytes.length) => decodeWithin(type, bytes, { start, end }) as Shape;
  }
  try {
    const resolver = type.createResolver(writer);
    return (bytes, start = 0, end = bytes.length) =>
      decodeWithin(type, bytes, { start, end }, resolver) as Shape;
  } catch (cause) {
    throw new DecodingError(
      `What was written as ${writer.name} cannot be read as it is today: ${(cause as Error).message}`,
      { cause },
    );
  }
};

/** The record's name and the event type inside it must tell the same, or the data is taken for what it is not. */
const upToDate = <Shape extends EventEnvelope>(
  { eventType, eventName, fullName }: EnvelopeSchema,
  decode: Reader<Shape>,
  shapeOf: (schema: EnvelopeSchema) => Type,
): Reader<Shape> => {
  const isPast = newestTypeOf(eventType) !== eventType;
  return (bytes, start, end) => {
    const envelope = decode(bytes, start, end);
    if (envelope.type !== eventType) {
      throw new DecodingError(`A ${fullName} says that it is ${envelope.type}, and not ${eventType}`);
    }
    return isPast ? checked(shapeOf(envelopeSchemaOf(eventName)), upcastEnvelope(envelope)) : envelope;
  };
};

/** Only types of the past pay for this: an upcaster with a mistake must not reach a projection. */
const checked = <Shape>(type: Type, envelope: Shape): Shape => {
  const wrong: string[] = [];
  type.isValid(envelope, { errorHook: (path: string[]) => void wrong.push(path.join('.')) });
  if (wrong.length > 0) {
    throw new DecodingError(`An upcast event does not fit ${type.name}: ${wrong.join(', ')}`);
  }
  return envelope;
};

const shapesWithoutProvenance = new WeakMap<EnvelopeSchema, Type>();

const shapeWithoutProvenance = (schema: EnvelopeSchema): Type => {
  const known = shapesWithoutProvenance.get(schema);
  if (known) return known;
  const leftOut: ReadonlySet<string> = new Set(provenanceFields);
  const record = JSON.parse(schema.json) as AvroRecord;
  const fields = record.fields.filter(({ name }) => !leftOut.has(name));
  const type = parseSchema(JSON.stringify({ ...record, fields }));
  shapesWithoutProvenance.set(schema, type);
  return type;
};

const inFull = readersOf<Envelope>(({ type }) => type);
const withoutProvenance = readersOf<EventEnvelope>(shapeWithoutProvenance);
