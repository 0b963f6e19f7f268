import { Readable } from 'node:stream';
import type { LiveUpdates } from '../../../src/live/live-updates.ts';

/** A stream that has said everything as soon as it is open. */
export const goodLive: LiveUpdates = {
  subscribe: () => ({ kind: 'open', stream: Readable.from(['event: ready\ndata: {"resumed":false}\n\n']) }),
  close: async () => {},
};
