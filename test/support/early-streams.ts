import type { KStream, Windowed } from '../../src/streams/kstream.ts';
import type { CounterTable } from '../../src/streams/tables.ts';
import { sliding, tumbling } from '../../src/streams/windows.ts';
import type { Fact } from './json-stream.ts';

type Ids = readonly string[];

/** As little of an event as tells it from others: states are copied all the time. */
interface Mark {
  readonly id: string;
  readonly of: string;
}
const markOf = ({ id, of }: Fact): Mark => ({ id: id.slice(-12), of });

const idsOf = { initial: [] as Ids, fold: (ids: Ids, { id }: Mark) => [...ids, id] };

/** So long that nothing is ever late. */
const graceMs = 600_000;
const sizeMs = 100;
const differenceMs = 15;

/** What results that come at most so often add up to; some of its rows are refused for a while. */
export const earlyTotals = {
  table: 'early_totals',
  keyColumn: 'id',
  columns: ['early', 'final'],
} as const satisfies CounterTable;

/** Early results of every kind. */
export const earlyResults = (stream: KStream<Fact>): void => {
  const all = stream.map(markOf);
  const windowed = all.groupByKey().windowedBy(tumbling({ sizeMs, graceMs }));
  windowed
    .emit('on-update')
    .aggregate('updated', idsOf)
    .to({ name: 'updated' }, (window) => window);
  const paced = windowed.emit({ atMostEveryMs: 50 }).aggregate('paced', idsOf);
  paced.to({ name: 'paced' }, (window) => window);
  const [finals, early] = [paced.filter(({ isFinal }) => isFinal), paced.filter(({ isFinal }) => !isFinal)];
  finals.groupByKey().sum(earlyTotals, 'final', ({ value }) => value.length, { action: 'FINAL' });
  early.groupByKey().count(earlyTotals, 'early', { action: 'EARLY' });
  all
    .groupByKey()
    .windowedBy(sliding({ differenceMs, graceMs }))
    .emit('on-update')
    .aggregate('sliding', idsOf)
    .to({ name: 'sliding' }, (window) => window);
  all.toTable('latest');
  all.suppress('suppressed', { atMostEveryMs: 50 }).to({ name: 'suppressed' }, (value) => value);
};

const windowText = ({ key, startMs, value }: Pick<Windowed<Ids>, 'key' | 'startMs' | 'value'>): string =>
  `${key} ${startMs}: ${[...value].sort().join(' ')}`;

const slidingWindows = (records: readonly Fact[]): readonly string[] => {
  const starts = new Set(records.flatMap(({ time }) => [time - differenceMs, time + 1]));
  return [...starts].flatMap((startMs) => {
    const own = records.filter(({ time }) => time >= startMs && time <= startMs + differenceMs);
    const [first] = own;
    return first ? [windowText({ key: first.of, startMs, value: own.map((one) => markOf(one).id) })] : [];
  });
};

const startOf = ({ time }: Fact): number => Math.floor(time / sizeMs) * sizeMs;

/** What must come of these events, in whatever order they are taken. */
export const expectedEarly = (events: readonly Fact[]) => {
  const byKey = [...Map.groupBy(events, ({ of }) => of).values()];
  const final = [...Map.groupBy(events, (event) => `${event.of} ${startOf(event)}`).values()].flatMap((own) =>
    own
      .slice(0, 1)
      .map((first) =>
        windowText({ key: first.of, startMs: startOf(first), value: own.map((one) => markOf(one).id) }),
      ),
  );
  return {
    // Every event has made one window what it was, once.
    updatedBy: events.map((event) => markOf(event).id).sort(),
    updated: final.sort(),
    paced: final.toSorted(),
    sliding: byKey.flatMap(slidingWindows).sort(),
    earlyWrong: [] as readonly string[],
    suppressedWrong: [] as readonly string[],
    finalNotAddedUp: 0,
    earlyNotAddedUp: 0,
  };
};

/** Of one window each tells more than the one before, and the final one is the last. */
const wrongOrder = (windows: readonly Windowed<Ids>[]): readonly string[] =>
  [...Map.groupBy(windows, ({ key, startMs }) => `${key} ${startMs}`)].flatMap(([name, own]) =>
    own.flatMap(({ value, isFinal }, index) => {
      const before = own[index - 1];
      const isMore =
        !before ||
        (value.length - before.value.length >= (isFinal ? 0 : 1) &&
          before.value.every((id, place) => value[place] === id));
      return isMore && isFinal === (index === own.length - 1) ? [] : [`${name}: ${value.join(' ')}`];
    }),
  );

/** What did come. */
export const foundEarly = (
  valuesOf: (destination: string) => readonly unknown[],
  {
    latest,
    addedUp,
  }: { readonly latest: ReadonlyMap<string, unknown>; readonly addedUp: (column: string) => number },
) => {
  const of = (name: string) => valuesOf(name) as readonly Windowed<Ids>[];
  const finals = (name: string) => of(name).filter(({ isFinal }) => isFinal);
  const early = (name: string) => of(name).filter(({ isFinal }) => !isFinal);
  const suppressed = Map.groupBy(valuesOf('suppressed') as readonly Mark[], (value) => value.of);
  return {
    updatedBy: early('updated')
      .map(({ value }) => value.at(-1))
      .sort(),
    updated: finals('updated').map(windowText).sort(),
    paced: finals('paced').map(windowText).sort(),
    sliding: finals('sliding').map(windowText).sort(),
    earlyWrong: ['updated', 'paced', 'sliding'].flatMap((name) => wrongOrder(of(name))),
    suppressedWrong: [...latest].flatMap(([key, row]) => {
      const ids = (suppressed.get(key) ?? []).map(({ id }) => id);
      const isTwice = new Set(ids).size < ids.length;
      return ids.at(-1) === (row as { readonly latest: Mark }).latest.id && !isTwice
        ? []
        : [`${key}: ${ids}`];
    }),
    finalNotAddedUp: finals('paced').reduce((sum, { value }) => sum + value.length, 0) - addedUp('final'),
    earlyNotAddedUp: early('paced').length - addedUp('early'),
  };
};
