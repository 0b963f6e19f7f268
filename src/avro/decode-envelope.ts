import type { Type } from 'avsc';
import type { Envelope } from './envelope.ts';

export class DecodingError extends Error {
  override readonly name = 'DecodingError';
}

type Resolver = ReturnType<Type['createResolver']>;

/** Decodes the whole buffer or fails: avsc itself answers a truncated or overlong buffer with a quiet −1 or nothing. */
export const decodeEnvelope = (type: Type, bytes: Buffer, start = 0, resolver?: Resolver): Envelope => {
  const { value, offset } = decodeAt(type, bytes, start, resolver);
  if (offset !== bytes.length) {
    throw new DecodingError(
      offset < 0
        ? `The record ends in the middle of a ${type.name ?? 'value'} (${bytes.length} bytes)`
        : `${bytes.length - offset} bytes are left after a ${type.name ?? 'value'}`,
    );
  }
  return value as Envelope;
};

const decodeAt = (
  type: Type,
  bytes: Buffer,
  start: number,
  resolver?: Resolver,
): { value: unknown; offset: number } => {
  try {
    return type.decode(bytes, start, resolver) as { value: unknown; offset: number };
  } catch (cause) {
    throw new DecodingError(`The record is not a ${type.name ?? 'value'}: ${(cause as Error).message}`, {
      cause,
    });
  }
};
