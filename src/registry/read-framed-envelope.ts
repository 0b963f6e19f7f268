import { frameLength, schemaIdOf } from '../avro/confluent-frame.ts';
import { DecodingError } from '../avro/decode-envelope.ts';
import type { Envelope } from '../avro/envelope.ts';
import { envelopeReaderOf } from '../avro/read-envelope.ts';
import { UnknownEventType } from '../event-catalogue/upcasters.ts';
import { type SchemaRegistry, UnknownSchemaId, UnusableSchema } from './schema-registry.ts';

/** Reads a record's value as it lies in a topic: in today's shape and of today's type, whatever wrote it. */
export const readFramedEnvelope = async (registry: SchemaRegistry, framed: Buffer): Promise<Envelope> =>
  envelopeReaderOf(await registry.writerType(schemaIdOf(framed)))(framed, frameLength);

/** Bytes that no waiting will make readable, as opposed to a registry that does not answer. */
export const isUnreadable = (error: unknown): error is Error =>
  error instanceof DecodingError ||
  error instanceof UnknownSchemaId ||
  error instanceof UnusableSchema ||
  error instanceof UnknownEventType;
