import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import { appendLines } from './append-lines.ts';
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

  const alert = (letter: DeadLetter, error: unknown): void => {
    counts.onlyAlerted += 1;
    log.fatal(
      { err: error, letter: letterToJson(letter) },
      'A dead letter could not be kept anywhere: this line is all there is of it',
    );
  };

  const backUp = (letters: readonly DeadLetter[], cause: unknown): void => {
    const outcomes = append(
      backupFile,
      letters.map((letter) => JSON.stringify(letterToJson(letter))),
    );
    const kept = letters.filter((_, index) => outcomes[index] === undefined);
    counts.backedUp += kept.length;
    if (kept.length > 0) {
      log.error(
        { err: cause, backupFile, letters: kept.length },
        'Dead letters went to the backup file: their table did not take them',
      );
    }
    for (const [index, letter] of letters.entries()) {
      const error = outcomes[index];
      if (error) alert(letter, error);
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

/** A file that cannot be opened, or whose disk fails, takes none of them. */
const append = (file: string, lines: readonly string[]): readonly (Error | undefined)[] => {
  try {
    return appendLines(file, lines);
  } catch (error) {
    return lines.map(() => error as Error);
  }
};
