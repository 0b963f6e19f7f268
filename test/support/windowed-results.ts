import type { Windowed } from '../../src/streams/kstream.ts';
import type { TopologyTestDriver } from '../../src/streams/testing/topology-test-driver.ts';
import { asRecord, type Fact, fact } from './json-stream.ts';

/** What windows of specs add up. */
export const sums = {
  initial: 0,
  fold: (sum: number, { amount }: Fact) => sum + amount,
  merge: (one: number, other: number) => one + other,
};

/** Records of the key "a", or of the one that is given with the time. */
export const send = (
  driver: TopologyTestDriver,
  ...records: readonly (number | readonly [number, string])[]
): void => {
  for (const record of records) {
    const [time, of] = typeof record === 'number' ? ([record, 'a'] as const) : record;
    driver.send('facts', asRecord(fact({ time, of })));
  }
};

export const windowsOf = (driver: TopologyTestDriver): readonly Windowed<number>[] =>
  driver.output.map(({ value }) => value as Windowed<number>);

/** "0-100 3" is early, "0-100 3!" is final. */
export const told = (driver: TopologyTestDriver, key = 'a'): readonly string[] =>
  windowsOf(driver)
    .filter((window) => window.key === key)
    .map(({ startMs, endMs, value, isFinal }) => `${startMs}-${endMs} ${value}${isFinal ? '!' : ''}`);
