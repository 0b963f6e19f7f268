import { expect } from 'chai';
import { createMetricRegistry } from '../../../src/metrics/metric-registry.ts';
import { measureStreams } from '../../../src/metrics/streams-metrics.ts';
import type { StreamsObserver } from '../../../src/streams/ports.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import type { DriverOptions } from '../../../src/streams/testing/topology-test-driver.ts';
import { asRecord, driverOf, fact, facts } from '../../support/json-stream.ts';
import { keepLines } from '../../support/logged-lines.ts';

const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;

const counting = (options: Partial<DriverOptions>) =>
  driverOf((t) => {
    t.stream(facts).groupByKey().count(counts, 'seen', { action: 'SEEN' });
  }, options);

const garbage = { key: 'a', value: Buffer.from('no json') };

describe('an observer', () => {
  it('that throws at everything it is told stops nothing, and is logged once for each kind of news', async () => {
    const fail = (): never => {
      throw new Error('no room for figures');
    };
    const observer: StreamsObserver = {
      applied: fail,
      deadLettered: fail,
      fenced: fail,
      waiting: fail,
      begunAnew: fail,
      stopped: fail,
      paused: fail,
    };
    const { log, lines } = keepLines();
    const driver = counting({ observer, logger: log });
    for (let round = 0; round < 5; round++) {
      driver.send('facts', asRecord(fact()));
      driver.send('facts', garbage);
      await driver.run();
    }
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', seen: 5 }]);
    expect(driver.deadLetters).to.have.length(5);
    const errors = lines.filter(({ level }) => level >= 50);
    expect(errors.map(({ msg, err }) => [msg, err?.message])).to.deep.equal([
      ['An observer of the projection failed: its figures are incomplete', 'no room for figures'],
      ['An observer of the projection failed: its figures are incomplete', 'no room for figures'],
    ]);
  });

  it('hears of no delay when a batch has no event that could be decoded', async () => {
    const delays: (number | undefined)[] = [];
    const driver = counting({
      startMs: 5000,
      observer: { applied: ({ delayMs }) => delays.push(delayMs) },
    });
    driver.send('facts', garbage);
    await driver.run();
    driver.send('facts', asRecord(fact({ time: 4000 })));
    await driver.run();
    driver.send('facts', garbage);
    await driver.run();
    expect(delays).to.deep.equal([undefined, 1000, undefined]);
  });

  it('that keeps metrics takes a batch of garbage only', async () => {
    const registry = createMetricRegistry();
    const { log, lines } = keepLines();
    const driver = counting({ observer: measureStreams(registry), logger: log });
    driver.send('facts', garbage);
    await driver.run();
    expect(lines.filter(({ level }) => level >= 50)).to.deep.equal([]);
    const text = await registry.register.metrics();
    expect(text).to.include('millrace_streams_dead_letters_total{projection="spec",kind="undecodable"} 1');
    expect(text).to.include('millrace_streams_batch_records_count{projection="spec"} 1');
    expect(text).not.to.include('millrace_streams_event_to_model_seconds_count{projection="spec"}');
  });
});

describe('a look at a value', () => {
  it('that throws is logged once per batch: the batch is committed, and no server is to blame', async () => {
    const { log, lines } = keepLines();
    const waits: boolean[] = [];
    const looked: string[] = [];
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .peek(({ of }) => {
            looked.push(of);
            throw new Error('cannot look');
          })
          .groupByKey()
          .count(counts, 'seen', { action: 'SEEN' });
      },
      { logger: log, observer: { waiting: (_, isWaiting) => waits.push(isWaiting) }, partitions: 1 },
    );
    driver.send('facts', asRecord(fact({ of: 'a' })));
    await driver.run();
    driver.send('facts', asRecord(fact({ of: 'a' })));
    await driver.run();
    expect(looked).to.deep.equal(['a', 'a']);
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', seen: 2 }]);
    expect(waits).to.deep.equal([]);
    expect(lines.filter(({ level }) => level >= 50).map(({ err }) => err?.message)).to.deep.equal([
      'cannot look',
      'cannot look',
    ]);
  });
});
