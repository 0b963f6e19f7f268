import { createWriterSchemas } from '../journal/writer-schemas.ts';
import type { Database } from '../postgres/database.ts';
import { type DropOutcome, dropEvent } from './drop-event.ts';
import type { EventFilter, EventRef } from './event-selection.ts';
import { type ImportReport, importBackup } from './import-backup.ts';
import { listDeadEvents, listFailedEvents } from './list-held-events.ts';
import { listPendingEvents } from './list-pending-events.ts';
import type { OutboxEvent } from './outbox-event.ts';
import { type RetryReport, type RetrySelection, retryEvents } from './retry-events.ts';
import { type ShownEvent, showEvent } from './show-event.ts';

/** Who changes something, and whether it is only to be said what would change. */
export interface ChangeOptions {
  readonly who: string;
  readonly dryRun: boolean;
}

/** What an operator can see of the outbox and do to it, from the command line and over HTTP alike. */
export interface OutboxAdmin {
  pending(filter: EventFilter): Promise<readonly OutboxEvent[]>;
  failed(filter: EventFilter): Promise<readonly OutboxEvent[]>;
  dead(filter: EventFilter): Promise<readonly OutboxEvent[]>;
  show(ref: EventRef): Promise<ShownEvent | undefined>;
  retry(selection: RetrySelection, options: ChangeOptions): Promise<RetryReport>;
  drop(ref: EventRef, options: ChangeOptions): Promise<DropOutcome>;
  importBackup(file: string, options: ChangeOptions): Promise<ImportReport>;
}

export const createOutboxAdmin = (database: Database, clock: () => Date = () => new Date()): OutboxAdmin => {
  const schemas = createWriterSchemas(database);
  return {
    pending: (filter) => listPendingEvents(database, filter),
    failed: (filter) => listFailedEvents(database, filter),
    dead: (filter) => listDeadEvents(database, filter),
    show: (ref) => showEvent(database, schemas, ref),
    retry: (selection, options) => retryEvents(database, selection, options),
    drop: (ref, options) => dropEvent(database, ref, options),
    importBackup: (file, options) => importBackup(database, file, { ...options, now: clock() }),
  };
};
