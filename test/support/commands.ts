import { createHash, randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { createBoundedSet } from '../../src/commands/bounded-set.ts';
import type { CommandRequest } from '../../src/commands/command.ts';
import { CommandExecutor, type ExecutorPorts } from '../../src/commands/command-executor.ts';
import { type Commands, createCommands } from '../../src/commands/commands.ts';
import { createWriterSchemas } from '../../src/journal/writer-schemas.ts';
import type { Database } from '../../src/postgres/database.ts';
import { silentLog } from './silent-log.ts';

/** The write side as one process has it; several of them on one database are several processes to each other. */
export const createTestExecutor = (database: Database, ports: Partial<ExecutorPorts> = {}): CommandExecutor =>
  new CommandExecutor({
    database,
    schemas: createWriterSchemas(database),
    source: 'spec',
    clock: () => new Date(),
    newEventId: uuidv7,
    idempotencyRetentionMs: 60_000,
    begunStreams: createBoundedSet(1000),
    settings: { batchSizeMax: 100, batchesMax: 4, queueMax: 10_000, conflictRetriesMax: 10 },
    log: silentLog(),
    onCommitted: () => {},
    ...ports,
  });

export const createCommandsOf = (executor: CommandExecutor): Commands =>
  createCommands(executor, { newId: randomUUID, newEventId: uuidv7 });

export const createTestCommands = (database: Database, ports: Partial<ExecutorPorts> = {}): Commands =>
  createCommandsOf(createTestExecutor(database, ports));

/** A request of an operator with a key of its own, unless told otherwise. */
export const request = (
  given: Partial<CommandRequest> & { key?: string; body?: string } = {},
): CommandRequest => {
  const { key = randomUUID(), body = '', ...rest } = given;
  return {
    context: { requestId: key, correlationId: key, traceparent: null },
    idempotency: { scope: 'spec', key, fingerprint: createHash('sha256').update(body).digest() },
    actingUser: undefined,
    expectedVersion: undefined,
    ...rest,
  };
};
