import { upcast } from '../event-catalogue/upcasters.ts';
import type { EventEnvelope } from './envelope.ts';

/** An envelope as today's version would have written it: whoever reads one sees only the types of today. */
export const upcastEnvelope = <Shape extends EventEnvelope>(envelope: Shape): Shape => {
  const { type, data } = upcast(envelope.type, envelope.data);
  return type === envelope.type ? envelope : { ...envelope, type, data };
};
