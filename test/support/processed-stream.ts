import type { KStream } from '../../src/streams/kstream.ts';
import type { CounterTable } from '../../src/streams/tables.ts';
import type { MemoryStateStore } from '../../src/streams/testing/memory-state-store.ts';
import type { StoredTimer } from '../../src/streams/timers/process-state.ts';
import type { Fact } from './json-stream.ts';

/** What timers by the wall clock hand on; some of its rows are refused for a while. */
export const flushes = {
  table: 'flushes',
  keyColumn: 'id',
  columns: ['flushed'],
} as const satisfies CounterTable;

/** How many records a state has seen since it began, and which was the first. */
interface Recent {
  readonly first: string;
  readonly records: number;
}

/** Timers by either clock, and states that expire. */
export const processStream = (stream: KStream<Fact>): void => {
  // Ids are gathered, and handed on together when the wall clock says so.
  const flushed = stream.process<readonly string[], readonly string[]>('gathered', {
    onRecord: ({ value: { id, time } }, { store, schedule }) => {
      const before = store.get() ?? [];
      store.put([...before, id]);
      if (before.length === 0) schedule({ name: 'flush', atMs: time + 50, by: 'wall-clock' });
    },
    onTimer: (_, { store, forward }) => {
      forward(store.get() ?? []);
      store.delete();
    },
  });
  flushed.to({ name: 'flushed' }, (ids) => ids);
  flushed.groupByKey().sum(flushes, 'flushed', (ids) => ids.length, { action: 'FLUSHED' });
  // Each record has a timer of its own.
  stream
    .process<never, string>('echo', {
      onRecord: ({ value: { id, time } }, { schedule }) =>
        schedule({ name: id, atMs: time + 40, by: 'stream-time' }),
      onTimer: ({ name }, { forward }) => forward(name),
    })
    .to({ name: 'echo' }, (id) => id);
  stream
    .groupByKey()
    .aggregate<Recent | null>('recent', {
      initial: null,
      fold: (recent, { id }) => ({ first: recent?.first ?? id, records: (recent?.records ?? 0) + 1 }),
      expireAfterMs: 80,
    })
    .toStream()
    .to({ name: 'recent' }, (recent) => recent);
};

export const expectedOfProcess = (applied: readonly Fact[]) => ({
  flushed: applied.map(({ id }) => id).sort(),
  addedToFlushes: applied.length,
  stillGathered: 0,
  echoedOrWaiting: applied.map(({ id }) => id).sort(),
  recentRecords: applied.length,
  recentTwice: 0,
  recentNotEnded: 0,
  stillRecent: 0,
});

export const foundOfProcess = (
  store: MemoryStateStore,
  valuesOf: (destination: string) => readonly unknown[],
) => {
  const waiting = [...store.statesOf('echo').values()].flatMap((state) =>
    (state as { readonly timers: readonly StoredTimer[] }).timers.map(({ name }) => name),
  );
  const changes = (valuesOf('recent') as readonly (Recent | null)[]).filter((change) => change !== null);
  const lives = new Set(changes.map(({ first }) => first));
  return {
    flushed: (valuesOf('flushed') as readonly (readonly string[])[]).flat().sort(),
    addedToFlushes: store.rowsOf('flushes').reduce((sum, { flushed }) => sum + Number(flushed), 0),
    stillGathered: store.statesOf('gathered').size,
    echoedOrWaiting: [...(valuesOf('echo') as readonly string[]), ...waiting].sort(),
    recentRecords: changes.length,
    recentTwice: changes.length - new Set(changes.map(({ first, records }) => `${first} ${records}`)).size,
    recentNotEnded: lives.size - (valuesOf('recent').length - changes.length),
    stillRecent: store.statesOf('recent').size,
  };
};
