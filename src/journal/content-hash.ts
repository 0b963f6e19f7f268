import { hash } from 'node:crypto';

/** Proof that a row is what the command wrote; verified before it is published. */
export const contentHash = (event: { requestId: string; eventType: string; payload: Buffer }): Buffer =>
  hash(
    'sha256',
    Buffer.concat([Buffer.from(`${event.requestId}|${event.eventType}|`), event.payload]),
    'buffer',
  );
