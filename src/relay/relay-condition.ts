import type { Logger } from 'pino';
import type { Database, SqlRunner } from '../postgres/database.ts';
import { type BreakerState, CircuitOpen } from './circuit-breaker.ts';

/** Something a relay cannot do at the moment. */
export interface RelayTrouble {
  readonly lease: string;
  readonly since: Date;
  readonly error: string;
}

/** How a relay process is, as far as others have to know to explain why nothing moves. */
export interface RelayCondition {
  readonly circuit: BreakerState;
  /** Since when it is closed, or since when it is not. */
  readonly circuitSince: Date;
  readonly troubles: readonly RelayTrouble[];
}

const statement = {
  name: 'tell-relay-condition',
  text: `
    insert into relay_process (name, alive_until, circuit, circuit_since, troubles)
    values ($1, clock_timestamp(), $2, $3, $4::jsonb)
    on conflict (name) do update
      set circuit = excluded.circuit, circuit_since = excluded.circuit_since, troubles = excluded.troubles`,
};

const storeCondition = async (db: SqlRunner, name: string, condition: RelayCondition): Promise<void> => {
  const { circuit, circuitSince, troubles } = condition;
  await db.execute(statement, [name, circuit, circuitSince, JSON.stringify(troubles)]);
};

export interface ConditionReport {
  circuitChanged(state: BreakerState): void;
  /** Null when it works again. The same error again is no change, and an open circuit is told by itself. */
  troubleChanged(lease: string, error: Error | null): void;
  /** After what is still to be told has been, unless the database does not take it. */
  stop(): Promise<void>;
}

const retryDelayMs = 1000;

/**
 * Tells the other processes how this one is: when something changes, never per event. While the database does not answer
 * nobody could read it either; the last state is written when it is back.
 */
export const createConditionReport = (options: {
  database: Database;
  name: string;
  clock: () => Date;
  log: Logger;
}): ConditionReport => {
  const { database, name, clock, log } = options;
  let condition: RelayCondition = { circuit: 'closed', circuitSince: clock(), troubles: [] };
  let isDue = false;
  let isStopped = false;
  let writing: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const write = async (): Promise<void> => {
    while (isDue) {
      isDue = false;
      try {
        await storeCondition(database, name, condition);
      } catch (error) {
        log.debug({ err: error }, 'The condition of the relay could not be told; it is told later');
        isDue = true;
        if (!isStopped) timer = setTimeout(begin, retryDelayMs).unref();
        return;
      }
    }
  };
  const begin = (): void => {
    writing ??= write().finally(() => {
      writing = undefined;
    });
  };
  const change = (next: Partial<RelayCondition>): void => {
    condition = { ...condition, ...next };
    isDue = true;
    begin();
  };

  return {
    circuitChanged: (circuit) => {
      // A trial in between does not make it any newer: it is since then that nothing can be relied on.
      const isOneTrouble = circuit !== 'closed' && condition.circuit !== 'closed';
      change({ circuit, ...(!isOneTrouble && { circuitSince: clock() }) });
    },
    troubleChanged: (lease, error) => {
      if (error instanceof CircuitOpen) return;
      const known = condition.troubles.find((trouble) => trouble.lease === lease);
      const text = error && inOneLine(error);
      if (known?.error === text || (!known && !text)) return;
      const others = condition.troubles.filter((trouble) => trouble !== known);
      const troubles = text ? [...others, { lease, since: known?.since ?? clock(), error: text }] : others;
      change({ troubles });
    },
    stop: async () => {
      isStopped = true;
      clearTimeout(timer);
      await writing;
    },
  };
};

const errorLengthMax = 500;
const causesMax = 5;

/** The message with those of its causes, which say what really happened. */
const inOneLine = (error: Error): string => {
  const messages: string[] = [];
  let current: unknown = error;
  for (let depth = 0; current instanceof Error && depth < causesMax; depth++) {
    const { message } = current;
    if (!messages.some((known) => known.includes(message))) messages.push(message);
    current = current.cause;
  }
  return messages.join(': ').replace(/\s+/g, ' ').slice(0, errorLengthMax);
};
