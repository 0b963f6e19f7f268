import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import type { Round } from '../../../src/streams/lane.ts';
import { PauseGate } from '../../../src/streams/pause-gate.ts';
import type { RecordSource, SourceHandlers, StreamsObserver } from '../../../src/streams/ports.ts';
import type { RawBatch } from '../../../src/streams/record.ts';
import { runTopology } from '../../../src/streams/run-topology.ts';
import { silentObserver } from '../../../src/streams/silent-observer.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import type { DriverOptions, TopologyTestDriver } from '../../../src/streams/testing/topology-test-driver.ts';
import { tumbling } from '../../../src/streams/windows.ts';
import { eventually } from '../../support/eventually.ts';
import { asRecord, driverOf, fact, facts, jsonDecoder, specTopology } from '../../support/json-stream.ts';
import { keepLines } from '../../support/logged-lines.ts';
import { silentLog } from '../../support/silent-log.ts';

const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;
const alarms = { name: 'alarms' };

/** Counts, keeps windows, and derives an event of each record and of each window that closes. */
const definition: Parameters<typeof specTopology>[0] = (t) => {
  const stream = t.stream(facts);
  stream.groupByKey().count(counts, 'seen', { action: 'SEEN' });
  stream.to(alarms, ({ of }) => of, { name: 'of-each' });
  stream
    .groupByKey()
    .windowedBy(tumbling({ sizeMs: 100, graceMs: 0 }))
    .aggregate('windows', { initial: 0, fold: (sum) => sum + 1 })
    .to(alarms, ({ value }) => value, { name: 'of-windows' });
};
const driven = (options: Partial<DriverOptions> = {}) => driverOf(definition, { partitions: 1, ...options });

/** Whether it is still under way when everybody else has had their turn. */
const isPending = async (work: Promise<unknown>): Promise<boolean> => {
  let isSettled = false;
  void work.then(() => {
    isSettled = true;
  });
  for (let turns = 0; turns < 20; turns++) await nextTurn();
  return !isSettled;
};

const computeFirst = async ({ reader }: TopologyTestDriver): Promise<Round> => {
  for (;;) {
    const round = await reader.computeNext();
    if (round) return round;
  }
};

describe('a projection that is paused', () => {
  it('commits nothing of a batch that was computed before, and goes on with it when it is resumed', async () => {
    const driver = driven();
    driver.send('facts', asRecord(fact()));
    const round = await computeFirst(driver);
    driver.gate.set(true);
    const settling = driver.reader.settle(round);
    expect(await isPending(settling)).to.equal(true);
    expect(driver.table('counts')).to.deep.equal([]);
    expect(driver.output).to.deep.equal([]);
    driver.gate.set(false);
    await settling;
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', seen: 1 }]);
    expect(driver.output).to.have.length(1);
  });

  it('sends no dead letters and calls nobody outside', async () => {
    const called: unknown[] = [];
    const driver = driverOf(
      (t) => {
        t.stream(facts).call('outside', async (values) => void called.push(...values));
      },
      { partitions: 1 },
    );
    driver.send('facts', { key: 'a', value: Buffer.from('no json') });
    driver.send('facts', asRecord(fact()));
    const round = await computeFirst(driver);
    driver.gate.set(true);
    const settling = driver.reader.settle(round);
    expect(await isPending(settling)).to.equal(true);
    expect([driver.deadLetters.length, called.length]).to.deep.equal([0, 0]);
    driver.gate.set(false);
    await settling;
    await driver.run();
    expect([driver.deadLetters.length, called.length]).to.deep.equal([1, 1]);
  });

  it('closes no window by the wall clock until it is resumed', async () => {
    const driver = driven();
    driver.send('facts', asRecord(fact({ time: 10 })));
    await driver.run();
    driver.gate.set(true);
    await driver.advanceWallClock(10_000);
    expect(driver.output).to.have.length(1);
    driver.gate.set(false);
    await driver.advanceWallClock(0);
    expect(driver.output).to.have.length(2);
  });

  it('closes no window that was due before the pause came, either', async () => {
    const driver = driven();
    driver.send('facts', asRecord(fact({ time: 10 })));
    await driver.run();
    driver.passTime(10_000);
    const tick = await driver.reader.computeTick();
    if (!tick) throw new Error('No window was due');
    driver.gate.set(true);
    const settling = driver.reader.settle(tick);
    expect(await isPending(settling)).to.equal(true);
    expect(driver.output).to.have.length(1);
    driver.gate.set(false);
    await settling;
    expect(driver.output).to.have.length(2);
  });

  it('is held by its store, too, where the process has not heard of it; that is no trouble of a server', async () => {
    const { log, lines } = keepLines();
    const waits: boolean[] = [];
    const driver = driven({ logger: log, observer: { waiting: (_, isWaiting) => waits.push(isWaiting) } });
    driver.store.setPaused('spec', true);
    driver.send('facts', asRecord(fact()));
    const running = driver.run();
    expect(await isPending(running)).to.equal(true);
    expect(driver.table('counts')).to.deep.equal([]);
    driver.store.setPaused('spec', false);
    await running;
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', seen: 1 }]);
    expect(waits).to.deep.equal([]);
    expect(lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });

  it('counts everything once, whenever it is paused, resumed, restarted and given anew', async () => {
    const moves = fc.array(fc.constantFrom('send', 'step', 'pause', 'resume', 'restart', 'assign', 'tick'), {
      minLength: 5,
      maxLength: 40,
    });
    await fc.assert(
      fc.asyncProperty(moves, fc.integer(), async (steps, seed) => {
        const driver = driven({ seed, partitions: 2 });
        const keys = ['a', 'b', 'c'];
        const expected = new Map<string, number>();
        const underWay: Promise<void>[] = [];
        let committedWhilePaused = 0;
        let atPause: number | undefined;
        let time = 0;
        for (const step of steps) {
          if (step === 'send') {
            const of = keys[time % 3] ?? 'a';
            time += 30;
            driver.send('facts', asRecord(fact({ of, time })));
            expected.set(of, (expected.get(of) ?? 0) + 1);
          } else if (step === 'pause' && !driver.gate.isPaused) {
            // In the middle of whatever was begun.
            underWay.push(driver.reader.step());
            driver.gate.set(true);
            atPause = driver.output.length;
            await nextTurn();
          } else if (step === 'resume') {
            driver.gate.set(false);
            await Promise.all(underWay.splice(0));
            atPause = undefined;
          } else if (driver.gate.isPaused) {
            if (step === 'assign') await driver.reader.assign();
            if (step === 'tick') await driver.advanceWallClock(5000);
          } else if (step === 'step') await driver.reader.step();
          else if (step === 'restart') driver.restart();
          else if (step === 'assign') await driver.reader.assign();
          else await driver.advanceWallClock(5000);
          if (atPause !== undefined) committedWhilePaused += driver.output.length - atPause;
        }
        driver.gate.set(false);
        await Promise.all(underWay);
        await driver.run();
        expect(committedWhilePaused).to.equal(0);
        const found = driver.table('counts').map(({ id, seen }) => [id, seen]);
        expect(new Map(found as [string, number][])).to.deep.equal(expected);
      }),
      { numRuns: 200 },
    );
  });
});

/** A source of one partition that has whatever it is given, and counts how often it was asked. */
class FakeSource implements RecordSource {
  readonly failed = new Promise<Error>(() => {});
  readonly told: boolean[] = [];
  taken = 0;
  #handlers: SourceHandlers | undefined;
  #records: RawBatch['records'] = [];
  #offset = 0;

  async start(handlers: SourceHandlers): Promise<void> {
    this.#handlers = handlers;
    await this.#handlers.onAssigned([{ topic: 'facts', partition: 0, reading: 1 }]);
  }

  give(count: number): void {
    const given = Array.from({ length: count }, (_, index) => {
      const { key, value } = asRecord(fact());
      const bytes = value ?? Buffer.alloc(0);
      return {
        offset: this.#offset + this.#records.length + index,
        timestampMs: 0,
        key: Buffer.from(key ?? ''),
        value,
        headers: {},
        replay: undefined,
        bytes,
        valueStart: 0,
        valueEnd: bytes.length,
      };
    });
    this.#records = [...this.#records, ...given];
  }

  async take(): Promise<readonly RawBatch[]> {
    this.taken++;
    await nextTurn();
    const records = this.#records;
    if (records.length === 0) return [];
    const fromOffset = this.#offset;
    this.#records = [];
    this.#offset += records.length;
    return [{ topic: 'facts', partition: 0, reading: 1, fromOffset, records, nextOffset: this.#offset }];
  }

  seek(): number {
    return 1;
  }
  isCaughtUp(): boolean {
    return true;
  }
  setPaused(isPaused: boolean): void {
    this.told.push(isPaused);
  }
  reportApplied(): void {}
  async stop(): Promise<void> {}
}

describe('running a topology that is paused', () => {
  const running: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const topology of running.splice(0)) await topology.stop();
  });
  const run = async (gate: PauseGate, observer: Partial<StreamsObserver> = {}) => {
    const source = new FakeSource();
    const store = new MemoryStateStore();
    const started = await runTopology({
      topology: specTopology(definition),
      source,
      decoder: jsonDecoder,
      store,
      deadLetters: { send: async () => {} },
      observer: { ...silentObserver, ...observer },
      gate,
      settings: { retryDelayMs: 1, handledIdsMax: 100, statesMax: 100, pollRecordsMax: 100 },
      log: silentLog(),
    });
    running.push(started);
    const seen = (): unknown => store.rowsOf('counts')[0]?.seen;
    return { source, store, started, seen };
  };

  it('takes nothing from the start, and tells its source and its observer', async () => {
    const gate = new PauseGate(true);
    const told: boolean[] = [];
    const { source, seen } = await run(gate, { paused: (_, isPaused) => told.push(isPaused) });
    source.give(3);
    for (let turns = 0; turns < 20; turns++) await nextTurn();
    expect([source.taken, seen()]).to.deep.equal([0, undefined]);
    gate.set(false);
    await eventually(() => expect(seen()).to.equal(3));
    gate.set(true);
    gate.set(true);
    expect(source.told.at(-1)).to.equal(true);
    expect(told).to.deep.equal([true, false, true]);
  });

  it('goes on where it stood', async () => {
    const gate = new PauseGate();
    const { source, seen } = await run(gate);
    source.give(2);
    await eventually(() => expect(seen()).to.equal(2));
    gate.set(true);
    source.give(5);
    for (let turns = 0; turns < 20; turns++) await nextTurn();
    expect(seen()).to.equal(2);
    gate.set(false);
    await eventually(() => expect(seen()).to.equal(7));
  });

  it('stops at once, without waiting for what it holds back', async () => {
    const gate = new PauseGate();
    const { source, store, started, seen } = await run(gate);
    store.setPaused('spec', true);
    source.give(2);
    await eventually(() => expect(source.taken).to.be.greaterThan(1));
    gate.set(true);
    const begunMs = performance.now();
    await started.stop();
    expect(performance.now() - begunMs).to.be.lessThan(2000);
    expect(seen()).to.equal(undefined);
  });
});
