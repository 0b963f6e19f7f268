import { closeSync, fsyncSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import type { OutboxRow } from './outbox-source.ts';

export interface DeadLetter {
  readonly row: OutboxRow;
  readonly reason: string;
}

/** How often each step of the safety net was needed, since the process started. */
export interface DeadLetterCounts {
  stored: number;
  backedUp: number;
  onlyAlerted: number;
}

export interface DeadLetterNet {
  readonly counts: Readonly<DeadLetterCounts>;
  /** Never throws: what cannot be stored is backed up, what cannot be backed up is cried out. */
  keep(letters: readonly DeadLetter[]): Promise<void>;
}

const statement = {
  name: 'keep-dead-letters',
  text: `
    insert into outbox_dead_letter (original_id, envelope, reason)
    select * from unnest($1::bigint[], $2::jsonb[], $3::text[])
    on conflict (original_id) do update set reason = excluded.reason, created_at = clock_timestamp()`,
};

/** A row as JSON that can be read again, whoever has to do it: in the table, in the backup file, in an alert. */
export const letterToJson = ({ row, reason }: DeadLetter): Record<string, unknown> => ({
  id: row.id,
  eventId: row.eventId,
  eventType: row.eventType,
  source: row.source,
  aggregateType: row.aggregateType,
  aggregateId: row.aggregateId,
  aggregateVersion: row.aggregateVersion,
  partitionKey: row.partitionKey,
  requestId: row.requestId,
  traceparent: row.traceparent,
  createdAt: row.createdAt,
  schemaFingerprint: row.schemaFingerprint.toString('hex'),
  payload: row.payload.toString('base64'),
  contentHash: row.contentHash.toString('hex'),
  reason,
});

/** Table, then an append-only file, then an alert: a dead letter is never lost because something else is broken too. */
export const createDeadLetterNet = (options: {
  database: Database;
  backupFile: string;
  log: Logger;
}): DeadLetterNet => {
  const { database, backupFile, log } = options;
  const counts: DeadLetterCounts = { stored: 0, backedUp: 0, onlyAlerted: 0 };

  const store = async (letters: readonly DeadLetter[]): Promise<void> => {
    await database.execute(statement, [
      letters.map(({ row }) => row.id),
      letters.map((letter) => JSON.stringify(letterToJson(letter))),
      letters.map(({ reason }) => reason),
    ]);
    counts.stored += letters.length;
  };

  const backUp = (letters: readonly DeadLetter[], cause: unknown): void => {
    try {
      appendSafely(backupFile, letters.map((letter) => `${JSON.stringify(letterToJson(letter))}\n`).join(''));
      counts.backedUp += letters.length;
      log.error(
        { err: cause, backupFile, letters: letters.length },
        'Dead letters went to the backup file: their table did not take them',
      );
    } catch (error) {
      counts.onlyAlerted += letters.length;
      for (const letter of letters) {
        log.fatal(
          { err: error, letter: letterToJson(letter) },
          'A dead letter could not be kept anywhere: this line is all there is of it',
        );
      }
    }
  };

  return {
    counts,
    keep: async (letters) => {
      if (letters.length === 0) return;
      for (const { row, reason } of letters) {
        log.error(
          { outboxId: row.id, eventId: row.eventId, eventType: row.eventType, reason },
          'An event is dead: it will not be published until somebody decides',
        );
      }
      await store(letters).catch((cause: unknown) => backUp(letters, cause));
    },
  };
};

/** On disk when it returns, not only on its way there. */
const appendSafely = (file: string, text: string): void => {
  mkdirSync(dirname(file), { recursive: true });
  const descriptor = openSync(file, 'a', 0o600);
  try {
    writeSync(descriptor, text);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
};
