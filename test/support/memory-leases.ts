import type { Database } from '../../src/postgres/database.ts';

interface HeldLease {
  token: number;
  holder: string;
  until: number;
}

export interface MemoryLeases {
  readonly database: Database;
  /** Whose the lease is now; nobody's when it has run out or was given back. */
  holderOf(name: string): string | undefined;
  /** Makes what was done with the lease so far void, as one who moves the cursor does; its holder stays. */
  fence(name: string): void;
  /** Makes every statement fail, or lets them through again. */
  setBroken(isBroken: boolean): void;
  setPaused(isPaused: boolean): void;
  /** Names of the statements so far. */
  readonly statements: readonly string[];
}

/**
 * The table of leases over a clock that a spec moves: what `acquire-lease` and `release-lease` do, without a server. No event
 * has failed, and processes that let a lease run out live: no death is noted.
 */
export const createMemoryLeases = (now: () => number): MemoryLeases => {
  const leases = new Map<string, HeldLease>();
  const statements: string[] = [];
  let isBroken = false;
  let isPaused = false;

  const acquire = ([name, holder, holdMs]: readonly unknown[]): readonly unknown[] => {
    if (isPaused) return [];
    const held = leases.get(name as string);
    const until = now() + (holdMs as number);
    if (held && held.holder !== holder && held.until >= now()) return [];
    const former = held?.holder === holder ? undefined : held;
    const lapsedFrom = former && former.until > Number.NEGATIVE_INFINITY ? former.holder : null;
    const token = (held?.token ?? 1) + (former ? 1 : 0);
    leases.set(name as string, { token, holder: holder as string, until });
    return [{ token, lapsedFrom }];
  };
  const release = ([name, holder]: readonly unknown[]): readonly unknown[] => {
    const held = leases.get(name as string);
    if (held && held.holder === holder) held.until = Number.NEGATIVE_INFINITY;
    return [];
  };
  const answers: Readonly<Record<string, (values: readonly unknown[]) => readonly unknown[]>> = {
    'acquire-lease': acquire,
    'release-lease': release,
    'load-relay-pause': () => (isPaused ? [{ by: 'spec', since: new Date(0), because: null }] : []),
    'let-relays-reconsider': () => [],
    'note-death-of-relay': () => [],
    'any-withheld-row': () => [{ anyFailed: false, lastDroppedId: null }],
  };
  const notHere = (): never => {
    throw new Error('Not in memory');
  };
  return {
    database: {
      execute: async <Row>(statement: { name: string }, values: readonly unknown[] = []) => {
        statements.push(statement.name);
        if (isBroken) throw new Error('The server does not answer');
        return (answers[statement.name] ?? notHere)(values) as readonly Row[];
      },
      checked: notHere,
      transaction: notHere,
      readBinary: notHere,
      close: async () => {},
    },
    holderOf: (name) => {
      const held = leases.get(name);
      return held && held.until >= now() ? held.holder : undefined;
    },
    fence: (name) => {
      const held = leases.get(name);
      if (held) held.token++;
    },
    setBroken: (next) => {
      isBroken = next;
    },
    setPaused: (next) => {
      isPaused = next;
    },
    statements,
  };
};
