import type { Logger } from 'pino';
import { VersionConflict } from '../journal/append-events.ts';
import { hashKey } from '../journal/idempotency-keys.ts';
import { lockStreams } from '../journal/lock-streams.ts';
import { saveSnapshots } from '../journal/save-snapshots.ts';
import type { Database } from '../postgres/database.ts';
import { isRefusedData } from '../postgres/sql-error.ts';
import type { CommandOutcome, CommandRequest } from './command.ts';
import { type CommandPlan, rejected } from './command-plan.ts';
import {
  BatchConflict,
  type BatchPorts,
  type BatchResult,
  executeBatch,
  type Submission,
  type SubmissionResult,
} from './execute-batch.ts';
import { streamKey } from './working-set.ts';

export interface ExecutorSettings {
  /** Commands that share one transaction at most. */
  readonly batchSizeMax: number;
  /** Transactions under way at once. */
  readonly batchesMax: number;
  /** Commands that may wait; beyond that they are refused at once instead of growing old here. */
  readonly queueMax: number;
  /** Times a batch that lost a race is decided again. */
  readonly conflictRetriesMax: number;
}

export interface ExecutorPorts extends BatchPorts {
  readonly database: Database;
  readonly settings: ExecutorSettings;
  readonly log: Logger;
  /** Called after the commit, so that the relay need not wait for its next poll. */
  readonly onCommitted: () => void;
}

export class TooManyCommands extends Error {
  override readonly name = 'TooManyCommands';
  readonly retriable = true;
}

interface Pending extends Submission {
  readonly streamKeys: readonly string[];
  readonly settle: (result: SubmissionResult) => void;
}

/**
 * Runs commands in batches that share a transaction. Nobody is kept waiting for a batch to fill: a command starts at
 * once while there is a free place, and what arrives in the meantime goes together. Commands on the same stream never
 * run in two batches at once, so within one process they queue up instead of losing races.
 */
export class CommandExecutor {
  readonly #ports: ExecutorPorts;
  readonly #keysInFlight = new Set<string>();
  readonly #busyStreams = new Set<string>();
  readonly #idle: (() => void)[] = [];
  #queue: Pending[] = [];
  #running = 0;

  constructor(ports: ExecutorPorts) {
    this.#ports = ports;
  }

  async execute<Answer>(plan: CommandPlan<Answer>, request: CommandRequest): Promise<CommandOutcome<Answer>> {
    const keyHash = hashKey(request.idempotency);
    const key = keyHash.toString('hex');
    if (this.#keysInFlight.has(key)) return rejected({ reason: 'idempotency-key-in-flight' });
    if (this.#queue.length >= this.#ports.settings.queueMax)
      throw new TooManyCommands('Too many commands are waiting');

    this.#keysInFlight.add(key);
    try {
      const result = await new Promise<SubmissionResult>((settle) => {
        this.#queue.push({ plan, request, keyHash, streamKeys: plan.streams.map(streamKey), settle });
        this.#startBatches();
      });
      if (result.outcome === 'failed') throw result.error;
      return result as CommandOutcome<Answer>;
    } finally {
      this.#keysInFlight.delete(key);
    }
  }

  /** Resolves when nothing is under way any more: a client that has hung up does not stop its command. */
  async drained(): Promise<void> {
    if (this.#running === 0) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #startBatches(): void {
    while (this.#running < this.#ports.settings.batchesMax) {
      const batch = this.#takeBatch();
      if (batch.length === 0) return;
      this.#running++;
      for (const { streamKeys } of batch) for (const key of streamKeys) this.#busyStreams.add(key);
      void this.#run(batch).finally(() => {
        this.#running--;
        for (const { streamKeys } of batch) for (const key of streamKeys) this.#busyStreams.delete(key);
        this.#startBatches();
        if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
      });
    }
  }

  /** The oldest commands whose streams are free. One that has to wait keeps later ones on its streams behind it. */
  #takeBatch(): readonly Pending[] {
    const batch: Pending[] = [];
    const waiting: Pending[] = [];
    const taken = new Set(this.#busyStreams);
    for (const pending of this.#queue) {
      const isFree =
        batch.length < this.#ports.settings.batchSizeMax && !pending.streamKeys.some((key) => taken.has(key));
      if (isFree) batch.push(pending);
      else {
        waiting.push(pending);
        for (const key of pending.streamKeys) taken.add(key);
      }
    }
    this.#queue = waiting;
    return batch;
  }

  /** Each command of a batch succeeds or fails alone, also when the batch as a whole could not be written. */
  async #run(batch: readonly Pending[]): Promise<void> {
    let written: BatchResult;
    try {
      written = await this.#tryBatch(batch);
    } catch (error) {
      const someoneAloneMaySucceed = isRefusedData(error) || error instanceof VersionConflict;
      if (batch.length > 1 && someoneAloneMaySucceed) {
        for (const pending of batch) await this.#run([pending]);
      } else {
        for (const pending of batch) pending.settle({ outcome: 'failed', error: error as Error });
      }
      return;
    }
    for (const [index, pending] of batch.entries()) {
      const result = written.results[index];
      pending.settle(result ?? { outcome: 'failed', error: new Error('A command got no result') });
    }
    await this.#afterCommit(written);
  }

  /** The commands have their answers: nothing that fails in here may be told to them, or decide them again. */
  async #afterCommit({ appended, snapshots }: BatchResult): Promise<void> {
    const { database, log, onCommitted } = this.#ports;
    try {
      if (appended > 0) onCommitted();
      await saveSnapshots(database, snapshots);
    } catch (error) {
      log.warn(
        { err: error, snapshots: snapshots.length },
        'Commands were written and answered; waking the relay or saving their snapshots failed, and later ones do it again',
      );
    }
  }

  /** First without locks; a batch that lost a race takes its streams one after the other and then decides again. */
  async #tryBatch(batch: readonly Pending[]): Promise<BatchResult> {
    const { database, settings } = this.#ports;
    let contended: readonly string[] | undefined;
    for (let attempt = 0; ; attempt++) {
      try {
        if (!contended) return await executeBatch(database, this.#ports, batch);
        const streamKeys = contended;
        return await database.transaction(async (tx) => {
          await lockStreams(tx, streamKeys);
          return executeBatch(tx, this.#ports, batch);
        });
      } catch (error) {
        if (!(error instanceof BatchConflict) || attempt >= settings.conflictRetriesMax) throw error;
        contended = error.streamKeys;
      }
    }
  }
}
