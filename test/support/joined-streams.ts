import { joinWindows } from '../../src/streams/joins/join-windows.ts';
import type { KStream } from '../../src/streams/kstream.ts';
import type { CounterTable } from '../../src/streams/tables.ts';
import type { Fact } from './json-stream.ts';

interface Pair {
  readonly left: string | null;
  readonly right: string | null;
}

const pairOf = (left: Fact | undefined, right: Fact | undefined): Pair => ({
  left: left?.id ?? null,
  right: right?.id ?? null,
});

const closeness = { beforeMs: 30, afterMs: 60 };
/** Waits so long that nothing is ever late. */
const patient = joinWindows({ ...closeness, graceMs: 600_000 });
/** Is over while others are still on their way. */
const hasty = joinWindows({ ...closeness, graceMs: 20 });

/** Every kind of join of two streams; what comes out alone is added up, too. */
export const joinStreams = (
  left: KStream<Fact>,
  right: KStream<Fact>,
  totals: CounterTable<'windowed' | 'alone'>,
): void => {
  left.join(right, pairOf, { name: 'inner', windows: patient }).to({ name: 'inner' }, (pair) => pair);
  left.leftJoin(right, pairOf, { name: 'left', windows: patient }).to({ name: 'left' }, (pair) => pair);
  const outer = left.outerJoin(right, pairOf, { name: 'outer', windows: hasty });
  outer.to({ name: 'outer' }, (pair) => pair);
  outer
    .filter((pair) => isAlone(pair))
    .groupByKey()
    .count(totals, 'alone', { action: 'ALONE' });
};

const isAlone = ({ left, right }: Pair): boolean => left === null || right === null;
const textOf = ({ left, right }: Pair): string => `${left} ${right}`;

const closePairs = (lefts: readonly Fact[], rights: readonly Fact[]): readonly Pair[] =>
  lefts.flatMap((left) =>
    rights
      .filter((right) => right.of === left.of)
      .filter(({ time }) => time >= left.time - closeness.beforeMs && time <= left.time + closeness.afterMs)
      .map((right) => pairOf(left, right)),
  );

/** What must come out of two streams with these events. */
export const expectedPairs = (lefts: readonly Fact[], rights: readonly Fact[]) => {
  const inner = closePairs(lefts, rights);
  const met = new Set(inner.map(({ left }) => left));
  const alone = lefts.filter(({ id }) => !met.has(id)).map((left) => pairOf(left, undefined));
  return {
    inner: inner.map(textOf).sort(),
    left: [...inner, ...alone].map(textOf).sort(),
    outerOrLate: lefts.length + rights.length,
    outerWrong: [] as readonly string[],
    notAddedUp: 0,
  };
};

/** What did come out. */
export const foundPairs = (
  valuesOf: (destination: string) => readonly unknown[],
  { sent, addedUp }: { readonly sent: readonly [readonly Fact[], readonly Fact[]]; readonly addedUp: number },
) => {
  const of = (name: string) => valuesOf(name) as readonly Pair[];
  const outer = of('outer');
  const pairs = outer.filter((pair) => !isAlone(pair));
  const alone = outer.filter(isAlone);
  const met = new Set(pairs.flatMap(({ left, right }) => [left, right]));
  const close = new Set(closePairs(...sent).map(textOf));
  const texts = outer.map(textOf);
  return {
    inner: of('inner').map(textOf).sort(),
    left: of('left').map(textOf).sort(),
    outerOrLate: met.size + alone.length,
    outerWrong: [
      ...texts.filter((text, index) => texts.indexOf(text) !== index).map((text) => `${text} twice`),
      ...pairs.map(textOf).flatMap((text) => (close.has(text) ? [] : [`${text} are not close`])),
      ...alone.flatMap(({ left, right }) =>
        met.has(left ?? right) ? [`${left ?? right} is not alone`] : [],
      ),
    ],
    notAddedUp: alone.length - addedUp,
  };
};
