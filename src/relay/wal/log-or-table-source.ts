import { createCursorSource } from '../cursor-source.ts';
import type { OutboxSource } from '../outbox-source.ts';
import { handOverToCursor } from './hand-over.ts';
import { loadLogLoss } from './log-loss.ts';
import { createLogOrTable } from './log-or-table.ts';
import { loadPosition } from './stored-position.ts';
import {
  createWalSource,
  defaultWalSettings,
  prepareWalSource,
  type WalSourceOptions,
} from './wal-source.ts';

/** While a relay holds its lease, others wait for it: it must not wait for an old transaction as long as one that starts. */
const slotWaitAtWorkMaxMs = 5000;

/** The outbox as RELAY_SOURCE=wal reads it. */
export const createLogOrTableSource = (options: WalSourceOptions): OutboxSource => {
  const { database, settings, log: logger } = options;
  const { slot, slotWaitMaxMs } = { ...defaultWalSettings, ...settings };
  const beginning = { ...settings, slotWaitMaxMs: Math.min(slotWaitMaxMs, slotWaitAtWorkMaxMs) };
  return createLogOrTable({
    log: createWalSource(options),
    table: createCursorSource(database),
    findLoss: () => loadLogLoss(database),
    hasPosition: async () => (await loadPosition(database, slot)) !== undefined,
    beginLog: () => prepareWalSource({ ...options, settings: beginning }),
    giveLogUp: async (lost, lease) => {
      await handOverToCursor(database, { slot, lease, lostBecause: lost.message });
    },
    clock: Date.now,
    logger,
  });
};
