import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Database } from '../../postgres/database.ts';
import {
  openReplicationStream,
  type ReplicationListener,
  type ReplicationStream,
} from '../../postgres/replication-stream.ts';
import { codeOf } from '../../postgres/sql-error.ts';
import type { Lease } from '../lease.ts';
import type { FailedRow, OutboxPage, OutboxSource } from '../outbox-source.ts';
import { storeFailedRows } from '../store-failed-rows.ts';
import { decodeRow } from './decode-row.ts';
import { defaultSlotNames, handOverToWal, type SlotNames } from './hand-over.ts';
import { holdLease } from './hold-lease.ts';
import { createRowsBeforeSlot, type RowsBeforeSlot } from './rows-before-slot.ts';
import {
  expelReader,
  explainRefusal,
  inspectSlot,
  readSenderTimeoutMs,
  requireLiveSlot,
  type SlotHealth,
  SlotLost,
} from './slot.ts';
import { loadPosition, movePosition, type PositionMove, prunePositions } from './stored-position.ts';
import { type QueuedRow, type WalPosition, WalQueue } from './wal-queue.ts';

export interface WalSourceSettings extends SlotNames {
  /** Above either, the socket is not read any further: the server keeps the rest, and memory does not grow with lag. */
  readonly queueRowsMax: number;
  readonly queueBytesMax: number;
  readonly connectTimeoutMs: number;
  readonly statusIntervalMs: number;
  readonly silenceMaxMs: number;
  readonly slotWaitMaxMs: number;
  /** How long a relay before this one may take to leave the slot before it is made to. */
  readonly takeOverAfterMs: number;
  readonly reconnectDelayMinMs: number;
  readonly reconnectDelayMaxMs: number;
}

export const defaultWalSettings: WalSourceSettings = {
  ...defaultSlotNames,
  queueRowsMax: 10_000,
  queueBytesMax: 32 * 1024 * 1024,
  connectTimeoutMs: 5000,
  statusIntervalMs: 1000,
  silenceMaxMs: 60_000,
  slotWaitMaxMs: 30_000,
  takeOverAfterMs: 2000,
  reconnectDelayMinMs: 100,
  reconnectDelayMaxMs: 10_000,
};

export interface WalSourceOptions {
  readonly database: Database;
  readonly databaseUrl: string;
  readonly applicationName: string;
  readonly log: Logger;
  readonly settings?: Partial<WalSourceSettings>;
  /** There may be something to do: rows have come, or the connection has gone. */
  readonly onChange?: () => void;
}

export interface WalSource extends OutboxSource {
  health(): Promise<SlotHealth>;
}

interface Reading {
  readonly queue: WalQueue;
  readonly stream: ReplicationStream;
  /** Of the server before the stream was opened: what is read belongs to this timeline or to a later one. */
  readonly timeline: number;
}

/** A stream that is just being opened. */
interface Opening {
  reading?: Reading;
  endedWith?: Error;
}

/** Nobody has said where the log begins: it was never read, or has been given up in the meantime. */
export class NoStoredPosition extends Error {
  override readonly name = 'NoStoredPosition';
}

type Pass = (count: number, failed: readonly FailedRow[], lease: Lease) => Promise<boolean>;

const objectInUse = '55006';
const slotUnusable = ['42704', '55000'];
const settlesPerPruning = 100;

const settingsOf = (options: WalSourceOptions): WalSourceSettings => ({
  ...defaultWalSettings,
  ...options.settings,
});

/** Makes the slot, unless there is a position in one already, or says what is missing for it. */
export const prepareWalSource = async (options: WalSourceOptions): Promise<void> => {
  const { database, databaseUrl, applicationName } = options;
  await handOverToWal(database, { ...settingsOf(options), databaseUrl, applicationName });
};

/** The outbox as the write-ahead log tells it: rows in the order of their commits. Only the holder of the lease asks it. */
export const createWalSource = (options: WalSourceOptions): WalSource =>
  new WalReader(options, settingsOf(options));

class WalReader implements WalSource {
  readonly #options: WalSourceOptions;
  readonly #settings: WalSourceSettings;
  readonly #passes = new WeakMap<OutboxPage, Pass>();
  /** Where a page of the log ends. */
  readonly #ends = new WeakMap<OutboxPage, { readonly position: WalPosition; readonly timeline: number }>();
  /** Everything up to there is just being passed, so that nobody is given it a second time. */
  #passing: WalPosition | undefined;
  #before: RowsBeforeSlot | undefined;
  #reading: Reading | undefined;
  #starting: Promise<void> = Promise.resolve();
  #closing: Promise<void> = Promise.resolve();
  #isClosed = false;
  /** Grows when everything in memory is forgotten, so that what was under way then does not come back. */
  #epoch = 0;
  #failure: { readonly error: unknown; readonly retryAt: number; readonly delayMs: number } | undefined;
  #settleCount = 0;

  constructor(options: WalSourceOptions, settings: WalSourceSettings) {
    this.#options = options;
    this.#settings = settings;
  }

  async nextPage(rowsMax: number, lease: Lease): Promise<OutboxPage | undefined> {
    if (this.#isClosed) throw new Error('The source is closed');
    const reading = this.#reading;
    if (reading) return this.#pageFrom(reading, reading.queue.peek(rowsMax, this.#passing));
    if (this.#failure && Date.now() < this.#failure.retryAt) throw this.#failure.error;
    const before = await this.#pageBeforeSlot(rowsMax, lease);
    if (before) return before;
    const starting = this.#startReading();
    // Closing waits for a connection that is just being made.
    this.#starting = starting.catch(() => undefined);
    await starting;
    const begun = this.#reading;
    return begun && this.#pageFrom(begun, begun.queue.peek(rowsMax));
  }

  async pageAfter(page: OutboxPage, rowsMax: number): Promise<OutboxPage | undefined> {
    const end = this.#ends.get(page);
    const reading = this.#reading;
    if (!end || reading?.timeline !== end.timeline) return undefined;
    return this.#pageFrom(reading, reading.queue.peek(rowsMax, end.position));
  }

  async settle(
    page: OutboxPage,
    count: number,
    failed: readonly FailedRow[],
    lease: Lease,
  ): Promise<boolean> {
    const pass = this.#passes.get(page);
    if (!pass) throw new Error('Only a page that came from this source can be settled');
    if (count === 0) return this.#options.database.transaction((tx) => holdLease(tx, lease));
    return pass(count, failed, lease);
  }

  forget(): void {
    this.#epoch += 1;
    this.#before = undefined;
    this.#stopReading();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.forget();
    await this.#starting;
    await this.#closing;
  }

  health(): Promise<SlotHealth> {
    return inspectSlot(this.#options.database, this.#settings.slot);
  }

  async #pageBeforeSlot(rowsMax: number, lease: Lease): Promise<OutboxPage | undefined> {
    if (!this.#before) {
      const { cursorUntil } = await this.#loadPosition();
      if (cursorUntil === null) return undefined;
      this.#before = createRowsBeforeSlot(this.#options.database, cursorUntil);
    }
    const before = this.#before;
    const rows = await before.nextRows(rowsMax, lease);
    if (rows.length === 0) return undefined;
    const page = { rows };
    this.#passes.set(page, async (count, failed, holding) => {
      const last = rows[count - 1];
      if (!last) throw new RangeError(`The page has no ${count} rows`);
      return before.pass({ last, failed, lease: holding });
    });
    return page;
  }

  #pageFrom({ timeline }: Reading, queued: readonly QueuedRow[]): OutboxPage | undefined {
    const end = queued.at(-1);
    if (!end) return undefined;
    const page = { rows: queued.map(({ row }) => row) };
    this.#ends.set(page, { position: end.position, timeline });
    this.#passes.set(page, (count, failed, lease) => {
      const last = queued[count - 1];
      if (!last) throw new RangeError(`The page has no ${count} rows`);
      this.#passing = last.position;
      const move = { slot: this.#settings.slot, position: last.position, timeline, lease };
      return this.#passThrough(move, failed).finally(() => {
        this.#passing = undefined;
      });
    });
    return page;
  }

  async #passThrough(move: PositionMove, failed: readonly FailedRow[]): Promise<boolean> {
    const { database } = this.#options;
    const isMoved =
      failed.length === 0
        ? await movePosition(database, move)
        : await database.transaction(async (tx) => {
            if (!(await movePosition(tx, move))) return false;
            await storeFailedRows(tx, failed);
            return true;
          });
    if (!isMoved) return false;
    this.#failure = undefined;
    const reading = this.#reading;
    if (reading?.timeline === move.timeline) {
      reading.queue.settle(move.position);
      // Only what is stored may be confirmed: a crash before this line makes the server send it again, and the stored
      // position makes the next relay skip it.
      reading.stream.acknowledge(reading.queue.confirmed);
      if (reading.queue.hasRoom) reading.stream.resume();
    }
    this.#settleCount += 1;
    if (this.#settleCount % settlesPerPruning === 0) await prunePositions(database, move.slot);
    return true;
  }

  async #loadPosition() {
    const { slot } = this.#settings;
    const stored = await loadPosition(this.#options.database, slot);
    if (stored) return stored;
    throw new NoStoredPosition(`No position is stored for the replication slot ${slot}`);
  }

  async #startReading(): Promise<void> {
    const epoch = this.#epoch;
    await this.#closing;
    try {
      const reading = await this.#open();
      if (epoch === this.#epoch) this.#reading = reading;
      else await reading.stream.close();
    } catch (error) {
      // Whoever asks again after these has something else to read from.
      if (error instanceof SlotLost || error instanceof NoStoredPosition) throw error;
      this.#backOff(explainRefusal(error));
      throw this.#failure?.error;
    }
  }

  #backOff(error: unknown): void {
    const { reconnectDelayMinMs, reconnectDelayMaxMs } = this.#settings;
    const delayMs = Math.min((this.#failure?.delayMs ?? reconnectDelayMinMs / 2) * 2, reconnectDelayMaxMs);
    this.#failure = { error, delayMs, retryAt: Date.now() + delayMs };
  }

  async #open(): Promise<Reading> {
    const { database } = this.#options;
    const { slot } = this.#settings;
    const deadline = Date.now() + this.#settings.takeOverAfterMs;
    for (let isExpelled = false; ; ) {
      const health = await inspectSlot(database, slot);
      requireLiveSlot(health);
      // Read after the lease was taken and the slot's state: what the relay before this one has settled is in it.
      const { position, timeline, serverTimeline } = await this.#loadPosition();
      // A slot that came along with the promotion may be ahead of the position that did: what failed in between was
      // stored with a position, and would be missing here.
      if (timeline !== serverTimeline) throw new SlotLost({ slot, how: 'promoted' });
      const queue = new WalQueue({
        rowsMax: this.#settings.queueRowsMax,
        bytesMax: this.#settings.queueBytesMax,
        settled: position,
        confirmed: health.confirmedLsn ?? 0n,
      });
      try {
        return await this.#connect(queue, timeline);
      } catch (error) {
        if (slotUnusable.includes(codeOf(error) ?? '')) requireLiveSlot(await this.health());
        if (codeOf(error) !== objectInUse || this.#isClosed) throw error;
        if (Date.now() > deadline) {
          if (isExpelled) throw error;
          this.#options.log.warn(
            { slot },
            'A relay that has lost the lease still holds the slot; it is made to leave',
          );
          await expelReader(database, slot);
          isExpelled = true;
        }
        await sleep(this.#settings.reconnectDelayMinMs);
      }
    }
  }

  async #connect(queue: WalQueue, timeline: number): Promise<Reading> {
    const { database, databaseUrl, applicationName } = this.#options;
    const senderTimeoutMs = await readSenderTimeoutMs(database);
    const { statusIntervalMs, silenceMaxMs } = this.#settings;
    const handle: Opening = {};
    const stream = await openReplicationStream({
      url: databaseUrl,
      applicationName,
      slot: this.#settings.slot,
      publication: this.#settings.publication,
      confirmedLsn: queue.confirmed,
      connectTimeoutMs: this.#settings.connectTimeoutMs,
      statusIntervalMs:
        senderTimeoutMs > 0 ? Math.min(statusIntervalMs, senderTimeoutMs / 4) : statusIntervalMs,
      silenceMaxMs,
      listener: this.#listener(queue, handle),
    });
    if (handle.endedWith) throw handle.endedWith;
    handle.reading = { queue, stream, timeline };
    if (queue.isFull) stream.pause();
    return handle.reading;
  }

  #listener(queue: WalQueue, handle: Opening): ReplicationListener {
    const { log, onChange } = this.#options;
    return {
      onBegin: (commitLsn) => queue.begin(commitLsn),
      onInsert: (row) => {
        queue.insert(decodeRow(row));
        if (queue.length === 1) onChange?.();
        if (queue.isFull) handle.reading?.stream.pause();
      },
      onCommit: (endLsn) => {
        queue.commit(endLsn);
      },
      onKeepalive: (lsn) => {
        // Not when it connects: a stream that breaks on the same row every time has to be tried less and less often.
        this.#failure = undefined;
        queue.keepalive(lsn);
        // On a database that is busy elsewhere this is all that lets the server remove its log.
        handle.reading?.stream.acknowledge(queue.confirmed);
      },
      onEnd: (error) => {
        handle.endedWith = error;
        if (!handle.reading || this.#reading !== handle.reading) return;
        log.warn(
          { err: error },
          'The replication stream broke; the relay connects again and goes on where it was',
        );
        this.#reading = undefined;
        this.#backOff(error);
        onChange?.();
      },
    };
  }

  #stopReading(): void {
    const reading = this.#reading;
    this.#reading = undefined;
    if (!reading) return;
    this.#closing = this.#closing.then(() =>
      reading.stream.close().catch((error: Error) => {
        this.#options.log.debug({ err: error }, 'The replication stream did not close cleanly');
      }),
    );
  }
}
