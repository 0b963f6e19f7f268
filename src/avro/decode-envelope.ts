import type { Type } from 'avsc';
import type { Envelope } from './envelope.ts';

export class DecodingError extends Error {
  override readonly name = 'DecodingError';
}

/** Decodes the whole buffer or fails: avsc itself answers a truncated or overlong buffer with a quiet −1 or nothing. */
export const decodeEnvelope = (writer: Type, bytes: Buffer, start = 0): Envelope => {
  const { value, offset } = decodeAt(writer, bytes, start);
  if (offset !== bytes.length) {
    throw new DecodingError(
      offset < 0
        ? `The record ends in the middle of a ${writer.name ?? 'value'} (${bytes.length} bytes)`
        : `${bytes.length - offset} bytes are left after a ${writer.name ?? 'value'}`,
    );
  }
  return value as Envelope;
};

const decodeAt = (writer: Type, bytes: Buffer, start: number): { value: unknown; offset: number } => {
  try {
    return writer.decode(bytes, start) as { value: unknown; offset: number };
  } catch (cause) {
    throw new DecodingError(`The record is not a ${writer.name ?? 'value'}: ${(cause as Error).message}`, {
      cause,
    });
  }
};
