import type { Envelope } from './envelope.ts';
import type { EnvelopeSchema } from './envelope-schema.ts';

export class EncodingError extends Error {
  override readonly name = 'EncodingError';
}

/** Fails on an event that is not what its schema says: better here, in the command, than in the relay at night. */
export const encodeEnvelope = (schema: EnvelopeSchema, envelope: Envelope): Buffer => {
  try {
    return schema.type.toBuffer(envelope);
  } catch (cause) {
    throw new EncodingError(
      `${envelope.type} does not fit its schema ${schema.fullName}: ${(cause as Error).message}`,
      {
        cause,
      },
    );
  }
};
