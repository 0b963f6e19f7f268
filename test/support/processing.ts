import type { DriverOptions, TopologyTestDriver } from '../../src/streams/testing/topology-test-driver.ts';
import type { Processor, TimerClock } from '../../src/streams/timers/processor.ts';
import { asRecord, driverOf, type Fact, fact, facts } from './json-stream.ts';

/** What a processor has done, in the order in which it counts. */
export type Seen = string;

export const processing = <S, R>(
  processor: Processor<Fact, S, R>,
  options: Partial<DriverOptions> = {},
): { readonly driver: TopologyTestDriver; readonly seen: R[] } => {
  const seen: R[] = [];
  const driver = driverOf(
    (t) => {
      t.stream(facts)
        .process('step', processor)
        .peek((value) => seen.push(value));
    },
    { partitions: 1, ...options },
  );
  return { driver, seen };
};

export const sendAt = (driver: TopologyTestDriver, ...times: readonly (number | Partial<Fact>)[]): void => {
  for (const given of times)
    driver.send('facts', asRecord(fact(typeof given === 'number' ? { time: given } : given)));
};

/** Tells of every record and timer; a record's kind says what to do: `set name at clock`, `cancel name`. */
export const telling: Processor<Fact, never, Seen> = {
  onRecord: ({ value: { kind, time } }, { schedule, cancel, forward }) => {
    forward(`record ${time}`);
    for (const order of kind.split(', ')) {
      const [does, name = '', at, by] = order.split(' ');
      if (does === 'set') schedule({ name, atMs: Number(at), by: by as TimerClock });
      if (does === 'cancel') cancel(name);
    }
  },
  onTimer: ({ name, atMs }, { forward }) => forward(`${name} ${atMs}`),
};
