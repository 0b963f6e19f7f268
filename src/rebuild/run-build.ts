import type { SqlRunner } from '../postgres/database.ts';
import type {
  DeadLetter,
  DeadLetters,
  RecordDecoder,
  RecordSource,
  StateStore,
  StreamsObserver,
} from '../streams/ports.ts';
import { runTopology } from '../streams/run-topology.ts';
import { silentObserver } from '../streams/silent-observer.ts';
import type { Topology } from '../streams/topology.ts';
import { addSetAside, type Build } from './build.ts';
import type { RebuildPorts } from './rebuild-ports.ts';

/** Records that a rebuild could not apply. Nothing is sent anywhere: the live projection has its own letters of them. */
export class SetAside implements DeadLetters {
  readonly #database: SqlRunner;
  readonly #build: Build;
  readonly #shown: string[] = [];
  #count: number;

  constructor(database: SqlRunner, build: Build) {
    this.#database = database;
    this.#build = build;
    this.#count = build.setAside;
  }

  get count(): number {
    return this.#count;
  }

  get shown(): readonly string[] {
    return this.#shown;
  }

  async send(_projection: unknown, letters: readonly DeadLetter[]): Promise<void> {
    await addSetAside(this.#database, this.#build, letters.length);
    this.#count += letters.length;
    for (const { place, record, error } of letters) {
      if (this.#shown.length >= shownMax) return;
      const key = record.key?.toString('utf8') ?? '';
      this.#shown.push(`${place.topic} ${key}: ${error.message}`);
    }
  }
}
const shownMax = 20;

export interface BuildRun {
  readonly topology: Topology;
  readonly source: RecordSource;
  readonly decoder: RecordDecoder;
  readonly store: StateStore;
  readonly setAside: SetAside;
  readonly onEvents: (count: number) => void;
}

/** Runs a build's topology for as long as the routine takes. */
export const whileRunning = async <T>(
  { settings, log, signal }: RebuildPorts,
  { topology, source, decoder, store, setAside, onEvents }: BuildRun,
  routine: (signal: AbortSignal) => Promise<T>,
): Promise<T> => {
  const observer: StreamsObserver = {
    ...silentObserver,
    applied: ({ places }) => onEvents(places.reduce((sum, { records }) => sum + records, 0)),
  };
  const running = await runTopology({
    topology,
    source,
    decoder,
    store,
    deadLetters: setAside,
    observer,
    settings,
    log,
  });
  const failed = new AbortController();
  void running.failed.then((error) => failed.abort(error));
  let isInVain = true;
  try {
    const result = await routine(AbortSignal.any([signal, failed.signal]));
    isInVain = false;
    return result;
  } finally {
    await running.stop({ inVain: isInVain });
  }
};

/** Waits for something that does not know when waiting is in vain. */
export const orAborted = async <T>(work: Promise<T>, signal: AbortSignal): Promise<T> => {
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
};
