import { setTimeout as pause } from 'node:timers/promises';
import type { Admin } from 'kafkajs';

const quietMs = 2000;

export const endOffset = async (admin: Admin): Promise<number> => {
  const offsets = await admin.fetchTopicOffsets('product-view-events');
  return offsets.reduce((sum, { high }) => sum + Number(high), 0);
};

/** A relay that has just started still has its leases and connections to get, and perhaps something left to publish. */
export const untilQuiet = async (admin: Admin): Promise<void> => {
  for (let before = -1; before !== (await endOffset(admin)); await pause(quietMs))
    before = await endOffset(admin);
};
