import { upcast } from '../event-catalogue/upcasters.ts';
import type { Envelope } from './envelope.ts';

/** An envelope as today's version would have written it: whoever reads one sees only the types of today. */
export const upcastEnvelope = (envelope: Envelope): Envelope => {
  const { type, data } = upcast(envelope.type, envelope.data);
  return type === envelope.type ? envelope : { ...envelope, type, data };
};
