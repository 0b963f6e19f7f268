import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import { isRunning } from './process-identity.ts';

const processIdentity = z.object({ pid: z.int().positive(), startedAt: z.string() });
const childProcess = processIdentity.extend({ name: z.string() });
const endpoints = z.object({
  databaseUrl: z.string().optional(),
  kafkaBrokers: z.array(z.string()).optional(),
  schemaRegistryUrl: z.string().optional(),
  redisUrl: z.string().optional(),
});
const stackState = z.object({
  phase: z.enum(['starting', 'ready', 'stopped']),
  owner: processIdentity,
  children: z.array(childProcess),
  endpoints,
  ports: z.record(z.string(), z.int().min(1).max(65_535)),
  brokers: z.union([z.literal(1), z.literal(3)]),
});

/** What one start leaves on disk for the next one, and for whoever looks from outside. */
export type StackState = z.infer<typeof stackState>;
export type RecordedChild = z.infer<typeof childProcess>;
export type EmbeddedEndpoints = z.infer<typeof endpoints>;

/** Undefined when there is none, or none that can be read: then nothing is known about an earlier start. */
export const readStackState = (path: string): StackState | undefined => {
  try {
    return stackState.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return undefined;
  }
};

/** Only the holder of the lock writes; readers see the old or the new file, never half of one. */
export const writeStackState = (path: string, state: StackState): void => {
  const half = `${path}.new`;
  // The endpoints carry the database's password.
  writeFileSync(half, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
  renameSync(half, path);
};

export const isLive = (state: StackState | undefined): state is StackState =>
  state?.phase === 'ready' && isRunning(state.owner);

/**
 * For the holder of the lock: what an earlier owner left running. Equal start times tell its children from
 * strangers that got the same pid.
 */
export const staleChildren = (state: StackState | undefined): readonly RecordedChild[] =>
  state?.children.filter(isRunning) ?? [];
