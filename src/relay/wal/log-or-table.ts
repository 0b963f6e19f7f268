import type { Logger } from 'pino';
import { OperatorError } from '../../operator-error.ts';
import type { Lease } from '../lease.ts';
import type { OutboxPage, OutboxSource } from '../outbox-source.ts';
import type { LogLoss } from './log-loss.ts';
import { SlotLost, wayBackToLog } from './slot.ts';
import { NoStoredPosition } from './wal-source.ts';

export interface LogOrTablePorts {
  readonly log: OutboxSource;
  readonly table: OutboxSource;
  /** Why the log may not be read, until an operator lets relays return to it. */
  readonly findLoss: () => Promise<LogLoss | null>;
  readonly hasPosition: () => Promise<boolean>;
  /** Makes a slot from which the log is read; an OperatorError when that is refused. */
  readonly beginLog: () => Promise<void>;
  /** Lets the table go on from what is known to be published, and stores why. */
  readonly giveLogUp: (lost: SlotLost, lease: Lease) => Promise<void>;
  readonly clock: () => number;
  readonly logger: Logger;
}

/** A slot that cannot be made now may be made later, when an old transaction has ended. */
const beginAgainAfterMs = 60_000;

/**
 * Reads the write-ahead log, and the table by snapshots while there is no log to read: after the slot was lost, until an
 * operator lets it return; or for as long as no slot can be made. What is stored decides, so that all relays agree.
 */
export const createLogOrTable = (ports: LogOrTablePorts): OutboxSource => {
  const { log, table, clock, logger } = ports;
  const givers = new WeakMap<OutboxPage, OutboxSource>();
  const settling = new Set<Promise<unknown>>();
  let chosen: OutboxSource | undefined;
  let beginAgainAt: number | undefined;
  let toldLoss: number | undefined;

  const tellLoss = ({ slot, reason, since }: LogLoss): void => {
    if (toldLoss === since.getTime()) return;
    toldLoss = since.getTime();
    logger.warn(
      { slot, since },
      `The relay reads the outbox table by snapshots instead of the write-ahead log: ${reason}. Nothing is lost. ${wayBackToLog}`,
    );
  };

  const begin = async (): Promise<OutboxSource> => {
    try {
      await ports.beginLog();
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      if (beginAgainAt === undefined) {
        logger.warn(
          { err: error },
          'The relay cannot read the write-ahead log now and reads the outbox table by snapshots; it tries again when there is nothing to publish, once a minute at most',
        );
      }
      beginAgainAt = clock() + beginAgainAfterMs;
      return table;
    }
    beginAgainAt = undefined;
    logger.info('The relay reads the write-ahead log from a new replication slot on');
    return log;
  };

  const choose = async (): Promise<OutboxSource> => {
    const loss = await ports.findLoss();
    if (loss) {
      tellLoss(loss);
      return table;
    }
    return (await ports.hasPosition()) ? log : begin();
  };

  const giveLogUp = async (lost: SlotLost, lease: Lease): Promise<void> => {
    // A position that is still being stored would not be seen by what the table goes on from, and outlive it.
    await Promise.allSettled(settling);
    log.forget();
    table.forget();
    await ports.giveLogUp(lost, lease);
  };

  const pageOfChosen = async (rowsMax: number, lease: Lease): Promise<OutboxPage | undefined> => {
    chosen ??= await choose();
    const giver = chosen;
    const page = await giver.nextPage(rowsMax, lease);
    if (page) givers.set(page, giver);
    // Only between two pages: one that is not settled yet would be read a second time.
    else if (beginAgainAt !== undefined && clock() >= beginAgainAt && settling.size === 0) chosen = undefined;
    return page;
  };

  const forget = (): void => {
    chosen = undefined;
    log.forget();
    table.forget();
  };

  const giverOf = (page: OutboxPage): OutboxSource => {
    const giver = givers.get(page);
    if (!giver) throw new Error('Only a page that came from this source can be settled');
    return giver;
  };

  return {
    nextPage: async (rowsMax, lease) => {
      try {
        return await pageOfChosen(rowsMax, lease);
      } catch (error) {
        if (error instanceof SlotLost) await giveLogUp(error, lease);
        // Somebody has decided otherwise, as by a resync.
        else if (!(error instanceof NoStoredPosition)) throw error;
        chosen = undefined;
        return pageOfChosen(rowsMax, lease);
      }
    },
    pageAfter: async (page, rowsMax) => {
      const giver = giverOf(page);
      const next = await giver.pageAfter(page, rowsMax);
      if (next) givers.set(next, giver);
      return next;
    },
    settle: async (page, count, failed, underLease) => {
      const settled = giverOf(page).settle(page, count, failed, underLease);
      settling.add(settled);
      try {
        return await settled;
      } finally {
        settling.delete(settled);
      }
    },
    forget,
    close: async () => {
      await Promise.all([log.close(), table.close()]);
    },
  };
};
