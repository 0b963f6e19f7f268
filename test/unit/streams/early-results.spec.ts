import { expect } from 'chai';
import fc from 'fast-check';
import { describeTopology } from '../../../src/streams/describe.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import type { DriverOptions, TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import type { Emit } from '../../../src/streams/windowing/emit.ts';
import { hopping, session, sliding, tumbling, type Windows } from '../../../src/streams/windows.ts';
import { asRecord, driverOf, fact, facts, specTopology } from '../../support/json-stream.ts';
import { send, sums, told, windowsOf } from '../../support/windowed-results.ts';

const tenths = tumbling({ sizeMs: 100, graceMs: 20 });

const emitting = (
  emit: Emit,
  { windows = tenths, ...options }: Partial<DriverOptions> & { readonly windows?: Windows } = {},
): TopologyTestDriver =>
  driverOf(
    (t) => {
      t.stream(facts)
        .groupByKey()
        .windowedBy(windows)
        .emit(emit)
        .aggregate('windows', sums)
        .to({ name: 'results' }, (window) => window);
    },
    { partitions: 1, ...options },
  );

describe('early results of windows', () => {
  it('come with every record where that is asked for, and the final one besides', async () => {
    const driver = emitting('on-update');
    send(driver, 10, 20, 30);
    await driver.run();
    expect(windowsOf(driver)[0]).to.deep.equal({
      key: 'a',
      startMs: 0,
      endMs: 100,
      value: 1,
      isFinal: false,
    });
    expect(told(driver)).to.deep.equal(['0-100 1', '0-100 2', '0-100 3']);
    driver.restart();
    driver.redeliver();
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(told(driver)).to.deep.equal(['0-100 1', '0-100 2', '0-100 3', '0-100 3!']);
  });

  it('do not come unless they are asked for', async () => {
    const driver = emitting('final');
    send(driver, 10, 20, 130);
    await driver.run();
    expect(told(driver)).to.deep.equal(['0-100 2!']);
  });

  it('of which only the final one is kept are what comes without any', async () => {
    const run = async (emit: Emit) => {
      const driver = emitting(emit, { windows: hopping({ sizeMs: 60, advanceMs: 20, graceMs: 10 }) });
      for (const time of [5, 30, 22, 70, 41, 150]) {
        send(driver, time, [time + 3, 'b']);
        await driver.run();
      }
      await driver.advanceWallClock(10_000);
      return windowsOf(driver).filter(({ isFinal }) => isFinal);
    };
    const finals = await run('final');
    expect(finals.length).to.be.greaterThan(8);
    expect(await run('on-update')).to.deep.equal(finals);
    expect(await run({ atMostEveryMs: 25 })).to.deep.equal(finals);
  });

  it('have ids of their own, by the window and the record: however often a record comes as several', async () => {
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .flatMap((one) => [one, one])
          .groupByKey()
          .windowedBy(hopping({ sizeMs: 100, advanceMs: 50, graceMs: 0 }))
          .emit('on-update')
          .aggregate('windows', sums)
          .to({ name: 'results' }, (window) => window);
      },
      { partitions: 1 },
    );
    send(driver, 60, 70);
    await driver.run();
    await driver.advanceWallClock(1000);
    // Two windows, four values in each, and two final results.
    expect(driver.output).to.have.length(10);
    expect(new Set(driver.output.map(({ id }) => id)).size).to.equal(10);
    expect(new Set(driver.output.map(({ causationId }) => causationId)).size).to.equal(10);
  });

  it('are counted once behind facts and counters', async () => {
    const counts = {
      table: 'counts',
      keyColumn: 'id',
      columns: ['told', 'once'],
    } as const satisfies CounterTable;
    const driver = driverOf((t) => {
      const windows = t
        .stream(facts)
        .groupByKey()
        .windowedBy(tenths)
        .emit('on-update')
        .aggregate('windows', sums)
        .groupByKey();
      windows.count(counts, 'told', { action: 'TOLD' });
      windows.count(counts, 'once', {
        action: 'ONCE',
        once: ({ key, startMs }) => ({ aggregateType: 'Window', aggregateId: `${key} ${startMs}` }),
      });
    });
    send(driver, 10, 20, 30);
    await driver.run();
    driver.redeliver();
    await driver.run();
    await driver.advanceWallClock(1000);
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', told: 4, once: 1 }]);
  });

  it('come at most so often by the time of the stream, always with the latest value', async () => {
    const driver = emitting({ atMostEveryMs: 30 });
    send(driver, 10, 15, 20);
    await driver.run();
    expect(told(driver), 'the first at once, the others wait').to.deep.equal(['0-100 1']);
    // Another key's record is enough to let time pass.
    send(driver, [40, 'b']);
    await driver.run();
    expect(told(driver)).to.deep.equal(['0-100 1', '0-100 3']);
    send(driver, 50);
    await driver.run();
    expect(told(driver)).to.have.length(2);
    send(driver, 95);
    await driver.run();
    expect(told(driver), 'what waited until 70; the new one waits until 100').to.deep.equal([
      '0-100 1',
      '0-100 3',
      '0-100 4',
    ]);
    send(driver, [130, 'b']);
    await driver.run();
    expect(told(driver).slice(3)).to.deep.equal(['0-100 5', '0-100 5!']);
  });

  it('come by the wall clock when the stream is quiet, and not beyond what the relay still holds', async () => {
    const driver = emitting({ atMostEveryMs: 30 });
    send(driver, 10, 20);
    await driver.run();
    driver.relayHolds(35);
    await driver.advanceWallClock(1000);
    expect(told(driver)).to.deep.equal(['0-100 1']);
    driver.restart();
    driver.relayHolds(45);
    await driver.advanceWallClock(0);
    expect(told(driver)).to.deep.equal(['0-100 1', '0-100 2']);
    driver.relayHolds(undefined);
    await driver.advanceWallClock(0);
    expect(told(driver)).to.deep.equal(['0-100 1', '0-100 2', '0-100 2!']);
  });

  it('of sessions go on under the bounds to which they have grown', async () => {
    const driver = emitting('on-update', { windows: session({ gapMs: 50, graceMs: 100 }) });
    send(driver, 100, 200, 150);
    await driver.run();
    await driver.advanceWallClock(10_000);
    expect(told(driver)).to.deep.equal(['100-150 1', '200-250 1', '100-250 3', '100-250 3!']);
  });

  it('are described, and refused where they make no sense', async () => {
    const textOf = (emit: Emit, windows: Windows) =>
      describeTopology(
        specTopology((t) => {
          t.stream(facts).groupByKey().windowedBy(windows).emit(emit).aggregate('windows', sums);
        }),
      );
    expect(textOf('final', tenths)).to.contain('grace 20 ms, handed on when final');
    expect(textOf('on-update', tenths)).to.contain('handed on with every record and when final');
    expect(textOf({ atMostEveryMs: 5000 }, sliding({ differenceMs: 60_000, graceMs: 0 }))).to.contain(
      'aggregate windows, sliding windows of 1 min, grace 0 s, handed on at most every 5 s and when final',
    );
    expect(() => emitting({ atMostEveryMs: 0 })).to.throw('atMostEveryMs');
  });

  const kinds: readonly (readonly [string, Windows])[] = [
    ['hopping windows', hopping({ sizeMs: 90, advanceMs: 30, graceMs: 15 })],
    ['sessions', session({ gapMs: 25, graceMs: 15 })],
    ['sliding windows', sliding({ differenceMs: 40, graceMs: 15 })],
  ];
  const emits: readonly (readonly [string, Emit])[] = [
    ['with every record', 'on-update'],
    ['at most so often', { atMostEveryMs: 35 }],
  ];
  for (const [kind, windows] of kinds) {
    for (const [how, emit] of emits) {
      it(`of ${kind} that come ${how} are the same in the same order by key, however records are batched`, async () => {
        const record = fc.record({
          stepMs: fc.integer({ min: -30, max: 40 }),
          of: fc.constantFrom('a', 'b', 'c'),
        });
        await fc.assert(
          fc.asyncProperty(
            fc.array(record, { minLength: 1, maxLength: 25 }),
            fc.integer({ min: 1, max: 1000 }),
            async (given, seed) => {
              let time = 1000;
              const sent = given.map(({ stepMs, of }) => {
                time = Math.max(0, time + stepMs);
                return fact({ time, of });
              });
              const run = async (isTogether: boolean) => {
                const driver = emitting(emit, { windows, seed });
                for (const value of sent) {
                  driver.send('facts', asRecord(value));
                  if (!isTogether) await driver.run();
                }
                await driver.run();
                await driver.advanceWallClock(1_000_000);
                const byKey = Map.groupBy(driver.output, ({ key }) => key);
                return [...byKey]
                  .map(([key, own]) => [key, own.map(({ id, value }) => [id, value])] as const)
                  .sort(([a], [b]) => (a < b ? -1 : 1));
              };
              expect(await run(true)).to.deep.equal(await run(false));
            },
          ),
          { numRuns: 60 },
        );
      });
    }
  }
});
