import { parentPort, workerData } from 'node:worker_threads';
import { type DatabaseOptions, openDatabase } from '../postgres/database.ts';
import type { BatchCommit, StateChange } from '../streams/ports.ts';
import { createPostgresStateStore } from '../streams-postgres/postgres-state-store.ts';
import { readJournalPage } from './journal-page.ts';
import type { Answer, Call, Calls } from './store-calls.ts';

const port = parentPort;
if (!port) throw new Error('This is the inside of a worker');

const database = openDatabase({
  ...(workerData as Omit<DatabaseOptions, 'onIdleError'>),
  onIdleError: () => {},
});
const store = createPostgresStateStore({
  database,
  appendDerived: async () => {
    throw new Error('A rebuild derives no events');
  },
});

/** Every message brings its tables anew; what is known of a table goes with the first one that was seen. */
const known = new Map<string, object>();
const intern = <T extends object>(value: T): T => {
  const text = JSON.stringify(value);
  const first = known.get(text) ?? value;
  known.set(text, first);
  return first as T;
};

const interned = (batch: BatchCommit): BatchCommit => {
  const seen = new Map<object, object>();
  const of = <T extends object>(value: T): T => {
    const first = seen.get(value) ?? intern(value);
    seen.set(value, first);
    return first as T;
  };
  const withState = (change: StateChange): StateChange => ({ ...change, state: of(change.state) });
  return {
    ...batch,
    deltas: batch.deltas.map(({ table, rows }) => ({ table: of(table), rows })),
    facts: batch.facts.map(({ fact, adds }) => ({
      fact,
      adds: adds.map(({ table, row }) => ({ table: of(table), row })),
    })),
    states: batch.states.map(withState),
  };
};

const calls: Calls = {
  loadPlaces: (projection, places) => store.loadPlaces(projection, places),
  loadHandled: (projection, requests) => store.loadHandled(projection, requests),
  loadStates: (projection, requests) =>
    store.loadStates(
      projection,
      requests.map(({ state, keys }) => ({ state: intern(state), keys })),
    ),
  loadChanged: (projection, request) => store.loadChanged(projection, request),
  findDue: (projection, request) => store.findDue(projection, request),
  commit: (batch) => store.commit(interned(batch)),
  readPage: (request) => readJournalPage(database, request),
  close: () => database.close(),
};

const answer = async ({ id, name, args }: Call): Promise<void> => {
  try {
    const call = calls[name] as (...args: readonly unknown[]) => Promise<unknown>;
    const result = await call(...args);
    port.postMessage({ id, result } satisfies Answer, name === 'readPage' ? bytesOf(result) : []);
  } catch (error) {
    const { name: kind, message } = error as Error;
    port.postMessage({ id, error: { kind, message } } satisfies Answer);
  }
};

/** Handed over instead of copied. */
const bytesOf = (result: unknown): ArrayBuffer[] => {
  const { rows } = result as Awaited<ReturnType<Calls['readPage']>>;
  return [rows.bytes.buffer as ArrayBuffer];
};

port.on('message', (call: Call) => void answer(call));
