import type { Type } from 'avsc';
import type { Envelope } from './envelope.ts';

export class DecodingError extends Error {
  override readonly name = 'DecodingError';
}

export type Resolver = ReturnType<Type['createResolver']>;

/** Decodes the whole buffer or fails: avsc itself answers a truncated or overlong buffer with a quiet −1 or nothing. */
export const decodeEnvelope = (type: Type, bytes: Buffer, start = 0, resolver?: Resolver): Envelope =>
  decodeWithin(type, bytes, { start, end: bytes.length }, resolver) as Envelope;

/** The same for bytes among others, which spares cutting them out. */
export const decodeWithin = (
  type: Type,
  bytes: Buffer,
  { start, end }: { readonly start: number; readonly end: number },
  resolver?: Resolver,
): unknown => {
  const { value, offset } = decodeAt(type, bytes, start, resolver);
  if (offset !== end) {
    const size = end - start;
    throw new DecodingError(
      offset < 0 || offset > end
        ? `The record ends in the middle of a ${type.name ?? 'value'} (${size} bytes)`
        : `${end - offset} bytes are left after a ${type.name ?? 'value'}`,
    );
  }
  return value;
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
