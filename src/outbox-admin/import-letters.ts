import { writeAudit } from '../operator-audit/write-audit.ts';
import type { Database, SqlRunner } from '../postgres/database.ts';
import { type DeadLetter, letterToJson } from '../relay/dead-letters.ts';
import { storeFailedRows } from '../relay/store-failed-rows.ts';
import type { EventState } from './outbox-event.ts';
import { parseLetter } from './parse-letter.ts';

export interface ImportedLine {
  readonly line: number;
  readonly outboxId: number | null;
  readonly result: 'imported' | 'would-import' | 'there-already' | 'not-needed' | 'bad';
  readonly detail: string;
}

export interface ImportOptions {
  readonly who: string;
  readonly dryRun: boolean;
  /** For the audit: where the lines came from. */
  readonly file: string;
}

const stateStatement = {
  name: 'state-of-letter',
  text: `
    select s.event_id as "eventId", s.state, d.original_id is not null as "hasLetter"
    from outbox_event_state s left join outbox_dead_letter d on d.original_id = s.id
    where s.id = $1`,
};

const keepStatement = {
  name: 'import-dead-letter',
  text: `
    insert into outbox_dead_letter (original_id, envelope, reason) values ($1, $2::jsonb, $3)
    on conflict (original_id) do nothing`,
};

/** Brings letters back, line by line: one that cannot be used is reported and the others go on. */
export const importLetters = async (
  database: Database,
  text: string,
  options: ImportOptions,
): Promise<readonly ImportedLine[]> => {
  const report: ImportedLine[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    report.push({ line: index + 1, ...(await importLine(database, line, options)) });
  }
  return report;
};

type LineResult = Omit<ImportedLine, 'line'>;

const importLine = async (database: Database, line: string, options: ImportOptions): Promise<LineResult> => {
  const letter = parseLetter(line);
  if ('problem' in letter) return { outboxId: null, result: 'bad', detail: letter.problem };
  // A transaction per line: a long file is not held up or undone by one of its lines.
  return database.transaction((tx) => importLetter(tx, letter, options));
};

const importLetter = async (
  tx: SqlRunner,
  letter: DeadLetter,
  { who, dryRun, file }: ImportOptions,
): Promise<LineResult> => {
  const { row, reason } = letter;
  const answer = (result: ImportedLine['result'], detail: string): LineResult => ({
    outboxId: row.id,
    result,
    detail,
  });
  const [known] = await tx.execute<{ eventId: string; state: EventState; hasLetter: boolean }>(
    stateStatement,
    [row.id],
  );
  // After a restore the same number may belong to another event, and that one must not be held up.
  if (known?.eventId !== row.eventId) {
    return answer('bad', `The journal of this database has no event ${row.eventId} with this id`);
  }
  if (known.state === 'dead' && known.hasLetter) return answer('there-already', reason);
  const why = whyNotNeeded[known.state];
  if (why !== undefined) return answer('not-needed', why);
  if (dryRun) return answer('would-import', reason);
  await tx.execute(keepStatement, [row.id, JSON.stringify(letterToJson(letter)), reason]);
  await storeFailedRows(tx, [{ row, error: reason, tried: true, dead: true }]);
  await writeAudit(tx, {
    who,
    action: 'outbox.import-backup',
    target: { outboxId: row.id, eventId: row.eventId, file },
  });
  return answer('imported', reason);
};

/** Held up again, such an event would hold up its aggregate for nothing, and might go out after later ones. */
const whyNotNeeded: Readonly<Partial<Record<EventState, string>>> = {
  sent: 'It was sent since',
  dropped: 'An operator dropped it since',
  failed: 'It is being tried again',
  waiting: 'It is waiting to be tried again',
};
