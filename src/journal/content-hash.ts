import { createHash } from 'node:crypto';

/** Proof that a row is what the command wrote; verified before it is published. */
export const contentHash = (event: { requestId: string; eventType: string; payload: Buffer }): Buffer =>
  createHash('sha256').update(`${event.requestId}|${event.eventType}|`).update(event.payload).digest();
