import type { Database, SqlRunner, Statement } from '../../src/postgres/database.ts';

interface StoredEvent {
  readonly stream: string;
  readonly version: number;
  readonly schemaFingerprint: Buffer;
  readonly payload: Buffer;
}

/** The journal as the write side sees it, in memory: each statement is known by its name, and a test may get in its way. */
export interface MemoryJournal {
  readonly database: Database;
  /** The names of the statements, in the order in which they were asked. */
  readonly statements: string[];
  /** The versions that a stream has, in the order in which they were written. */
  versions(aggregateType: string, aggregateId: string): readonly number[];
  /** Called before a statement does anything; what it throws, the statement throws. */
  beforeEach(hook: (statement: Statement, values: readonly unknown[]) => void | Promise<void>): void;
}

const keyOf = (aggregateType: unknown, aggregateId: unknown): string => `${aggregateType}/${aggregateId}`;

const lists = (values: readonly unknown[]) => values as readonly (readonly unknown[])[];

const uniqueViolation = (constraint: string): Error =>
  Object.assign(new Error('duplicate key value'), { code: '23505', constraint });

export const createMemoryJournal = (): MemoryJournal => {
  const events: StoredEvent[] = [];
  const answers = new Map<string, Record<string, unknown>>();
  const statements: string[] = [];
  let hook: Parameters<MemoryJournal['beforeEach']>[0] = () => {};

  const ofStream = (key: string): readonly StoredEvent[] => events.filter(({ stream }) => stream === key);

  const append = (values: readonly unknown[]): readonly unknown[] => {
    const [, , , types, ids, versions, , , fingerprints, payloads, , , , keys, prints, said, tokens] =
      lists(values);
    const written = (types ?? []).map((type, index) => ({
      stream: keyOf(type, ids?.[index]),
      version: versions?.[index] as number,
      schemaFingerprint: fingerprints?.[index] as Buffer,
      payload: payloads?.[index] as Buffer,
    }));
    const isTaken = written.some(({ stream, version }) =>
      ofStream(stream).some((event) => event.version === version),
    );
    if (isTaken) throw uniqueViolation('outbox_aggregate_type_aggregate_id_aggregate_version_key');
    const hashes = (keys as readonly Buffer[]).map((key) => key.toString('hex'));
    if (hashes.some((key) => answers.has(key))) throw uniqueViolation('idempotency_key_pkey');
    events.push(...written);
    for (const [index, key] of hashes.entries()) {
      answers.set(key, {
        keyHash: keys?.[index],
        fingerprint: prints?.[index],
        answer: JSON.parse(said?.[index] as string),
        consistencyToken: tokens?.[index],
        expired: false,
      });
    }
    return [];
  };

  const answer: Readonly<Record<string, (values: readonly unknown[]) => readonly unknown[]>> = {
    'find-answers': ([keys]) =>
      (keys as readonly Buffer[]).flatMap((key) => answers.get(key.toString('hex')) ?? []),
    'find-existing-streams': (values) => {
      const [types, ids] = lists(values);
      return (types ?? []).flatMap((type, index) =>
        ofStream(keyOf(type, ids?.[index])).length > 0 ? [{ place: index + 1 }] : [],
      );
    },
    'load-streams': (values) => {
      const [types, ids] = lists(values);
      return (types ?? []).flatMap((type, index) =>
        ofStream(keyOf(type, ids?.[index])).map((event) => ({ ...event, place: index + 1, state: null })),
      );
    },
    'append-events': append,
    'lock-streams': () => [],
    'save-snapshots': () => [],
  };

  const runner: SqlRunner = {
    execute: async <Row>(statement: Statement, values: readonly unknown[] = []) => {
      statements.push(statement.name);
      await hook(statement, values);
      const known = answer[statement.name];
      if (!known) throw new Error(`The journal in memory does not know ${statement.name}`);
      return known(values) as readonly Row[];
    },
    checked: () => Promise.reject(new Error('not asked')),
  };
  return {
    database: {
      ...runner,
      transaction: (routine) => routine(runner),
      readBinary: () => Promise.reject(new Error('not asked')),
      close: async () => {},
    },
    statements,
    versions: (aggregateType, aggregateId) =>
      ofStream(keyOf(aggregateType, aggregateId)).map(({ version }) => version),
    beforeEach: (next) => {
      hook = next;
    },
  };
};
