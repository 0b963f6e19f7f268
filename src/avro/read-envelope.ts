import type { Type } from 'avsc';
import { newestTypeOf, UnknownEventType } from '../event-catalogue/upcasters.ts';
import { DecodingError, decodeEnvelope } from './decode-envelope.ts';
import type { Envelope } from './envelope.ts';
import { type EnvelopeSchema, envelopeSchemaOf, fingerprintOf, readerSchemaOf } from './envelope-schema.ts';
import { upcastEnvelope } from './upcast-envelope.ts';

/** Reads what one writer's schema has written. */
export type EnvelopeReader = (bytes: Buffer, start?: number) => Envelope;

// Whoever finds a writer's schema keeps its type, so that one reader is made per schema id or fingerprint.
const readers = new WeakMap<Type, EnvelopeReader>();

/**
 * Reads an envelope as today's version would have written it: fields the writer did not know have their defaults,
 * fields this version does not know are gone, and a type of the past has become its successor.
 */
export const readEnvelope = (writer: Type, bytes: Buffer, start = 0): Envelope =>
  envelopeReaderOf(writer)(bytes, start);

/** The reader for a writer's schema, for whoever reads many envelopes of it. */
export const envelopeReaderOf = (writer: Type): EnvelopeReader => {
  const known = readers.get(writer);
  if (known) return known;
  const schema = readerSchemaOf(writer.name ?? '');
  if (!schema) {
    throw new UnknownEventType(
      `${writer.name ?? 'A nameless record'} is no envelope that this version knows`,
    );
  }
  const reader = upToDate(schema, decoderOf(schema, writer));
  readers.set(writer, reader);
  return reader;
};

const decoderOf = ({ type, fingerprint }: EnvelopeSchema, writer: Type): EnvelopeReader => {
  // What was written as it is read needs nothing in between.
  if (fingerprintOf(writer) === fingerprint) {
    return (bytes, start) => decodeEnvelope(type, bytes, start);
  }
  try {
    const resolver = type.createResolver(writer);
    return (bytes, start) => decodeEnvelope(type, bytes, start, resolver);
  } catch (cause) {
    throw new DecodingError(
      `What was written as ${writer.name} cannot be read as it is today: ${(cause as Error).message}`,
      { cause },
    );
  }
};

/** The record's name and the event type inside it must tell the same, or the data is taken for what it is not. */
const upToDate = (
  { eventType, eventName, fullName }: EnvelopeSchema,
  decode: EnvelopeReader,
): EnvelopeReader => {
  const isPast = newestTypeOf(eventType) !== eventType;
  return (bytes, start) => {
    const envelope = decode(bytes, start);
    if (envelope.type !== eventType) {
      throw new DecodingError(`A ${fullName} says that it is ${envelope.type}, and not ${eventType}`);
    }
    return isPast ? checked(envelopeSchemaOf(eventName), upcastEnvelope(envelope)) : envelope;
  };
};

/** Only types of the past pay for this: an upcaster with a mistake must not reach a projection. */
const checked = ({ type, fullName }: EnvelopeSchema, envelope: Envelope): Envelope => {
  const wrong: string[] = [];
  type.isValid(envelope, { errorHook: (path: string[]) => void wrong.push(path.join('.')) });
  if (wrong.length > 0) {
    throw new DecodingError(`An upcast event does not fit ${fullName}: ${wrong.join(', ')}`);
  }
  return envelope;
};
