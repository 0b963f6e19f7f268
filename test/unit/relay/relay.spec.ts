import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { CircuitBreaker } from '../../../src/relay/circuit-breaker.ts';
import type { Relay } from '../../../src/relay/loop.ts';
import type { OutboxRow, OutboxSource } from '../../../src/relay/outbox-source.ts';
import { createPageBudget } from '../../../src/relay/page-budget.ts';
import type { RowInPlace } from '../../../src/relay/row-in-place.ts';
import { mainRelayLease } from '../../../src/relay/shard.ts';
import { eventually } from '../../support/eventually.ts';
import { createHandClock } from '../../support/hand-clock.ts';
import { createJudgingBroker, rowsOf as labelledRows } from '../../support/judging-broker.ts';
import { brokerTrouble, createMemoryBroker } from '../../support/memory-broker.ts';
import { createMemoryLeases } from '../../support/memory-leases.ts';
import { createMemorySource, rowsOf, startMemoryRelay } from '../../support/memory-relay.ts';
import { recordingLog } from '../../support/silent-log.ts';

const breakerSettings = {
  windowCalls: 10,
  callsMin: 5,
  failureRatePercent: 50,
  openMs: 30_000,
  trialCalls: 3,
};

/** Five of them are a page that takes all of its room. */
const largeRows = (count: number): readonly OutboxRow[] => {
  const bytes = 1_600_000;
  const inPlace: RowInPlace = {
    kind: 'large',
    isOfKindOf: () => true,
    isIntact: () => true,
    toRecord: (shape, headers) => ({
      bytes: Buffer.alloc(0),
      uuidStart: 0,
      keyStart: 0,
      keyEnd: 0,
      valueStart: 0,
      valueEnd: bytes,
      shape,
      headers,
    }),
  };
  return rowsOf(Array.from({ length: count }, (_, index) => `large-${index}`)).map((row) => ({
    ...row,
    inPlace,
  }));
};

describe('relay on ports in memory', () => {
  const running: Relay[] = [];
  afterEach(() => Promise.all(running.splice(0).map((relay) => relay.stop())));

  const scene = () => {
    const clock = createHandClock();
    const leases = createMemoryLeases(clock.now);
    const { log, lines } = recordingLog();
    const breaker = new CircuitBreaker({ settings: breakerSettings, clock: clock.now, onChange: () => {} });
    const broker = createMemoryBroker();
    const start = (holder: string, keys: readonly string[], database = leases.database) => {
      const source = createMemorySource(rowsOf(keys));
      const { producer } = broker;
      running.push(startMemoryRelay({ database, source, producer, breaker, clock, holder, log }));
      return source;
    };
    return { clock, leases, lines, breaker, broker, start };
  };
  const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];

  it('keeps its lease while a page takes longer than that, and the one that stands by stays out', async () => {
    const { clock, leases, lines, broker, start } = scene();
    const answered = Promise.withResolvers<void>();
    let sends = 0;
    broker.setMood(() => {
      sends++;
      return answered.promise;
    });
    const first = start('first', keys);
    await eventually(() => expect(sends).to.equal(1));
    const second = start('second', keys);
    for (let elapsedMs = 0; elapsedMs < 55_000; elapsedMs += 1000) await clock.advance(1000);
    expect(leases.holderOf(mainRelayLease)).to.equal('first');
    answered.resolve();
    await eventually(() => expect(first.settled).to.deep.equal(keys));
    expect(second.asked).to.equal(0);
    expect(broker.keys).to.deep.equal(keys);
    expect(lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });

  it('does not hold a lease for ever for a page that never ends', async () => {
    const { clock, leases, broker, start } = scene();
    const answered = Promise.withResolvers<void>();
    broker.setMood(() => answered.promise);
    start('first', keys);
    await eventually(() => expect(leases.holderOf(mainRelayLease)).to.equal('first'));
    for (let elapsedMs = 0; elapsedMs < 130_000; elapsedMs += 5000) await clock.advance(5000);
    expect(leases.holderOf(mainRelayLease)).to.equal(undefined);
    answered.resolve();
  });

  it('waits between its steps while the trials of others are out and hang', async () => {
    const { clock, lines, breaker, broker, start } = scene();
    for (let turn = 0; turn < 5; turn++) {
      breaker.permits();
      breaker.failed();
    }
    await clock.advance(30_000);
    const answered = Promise.withResolvers<void>();
    let trials = 0;
    broker.setMood(() => {
      trials++;
      return answered.promise;
    });
    // Each with a table of leases of its own, as shards have leases of their own.
    const sources = keys.map((key) => start(key, [key], createMemoryLeases(clock.now).database));
    await eventually(() => expect(trials).to.equal(3));
    const before = sources.reduce((sum, { asked }) => sum + asked, 0);
    await sleep(300);
    const steps = sources.reduce((sum, { asked }) => sum + asked, 0) - before;
    expect(steps, 'pages that were read in vain').to.be.at.most(keys.length);
    expect(lines.filter(({ msg }) => msg.includes('in the middle of a batch')).length).to.be.at.most(5);
    answered.resolve();
    await eventually(() => expect(sources.flatMap(({ settled }) => settled)).to.deep.equal(keys));
    expect(breaker.state).to.equal('closed');
  });

  it('does not send again what has arrived of a page that the brokers did not take as a whole', async () => {
    const { clock, leases, breaker } = scene();
    const { log } = recordingLog();
    const rows = labelledRows('a@1', 'b@1', 'c@1', 'a@2', 'b@2', 'c@2');
    const broker = createJudgingBroker(rows);
    let failures = 2;
    broker.moods.receive = () => {
      broker.moods.objection = (label) =>
        label.startsWith('b') && failures > 0 ? 'BROKER_UNAVAILABLE' : undefined;
      failures--;
    };
    const source = createMemorySource(rows);
    const { database } = leases;
    const { producer } = broker;
    running.push(startMemoryRelay({ database, source, producer, breaker, clock, holder: 'only', log }));
    await eventually(() => expect(source.settled).to.have.length(rows.length));
    expect(broker.arrived.toSorted()).to.deep.equal(['a@1', 'a@2', 'b@1', 'b@2', 'c@1', 'c@2']);
  });

  it('shares the memory for pages with the other shards, and each gets its turn', async () => {
    const { clock, breaker, broker } = scene();
    const { log } = recordingLog();
    const pagesMax = 3;
    const pageBudget = createPageBudget({ bytesMax: pagesMax * 24 * 1024 * 1024 });
    let inMemory = 0;
    let inMemoryMax = 0;
    broker.setMood(() => sleep(1));
    const sources = Array.from({ length: 16 }, () => {
      const source = createMemorySource(largeRows(10));
      const nextPage: OutboxSource['nextPage'] = async (...asked) => {
        const page = await source.nextPage(...asked);
        if (page) inMemoryMax = Math.max(inMemoryMax, ++inMemory);
        return page;
      };
      const settle: OutboxSource['settle'] = async (...settled) => {
        const isPassed = await source.settle(...settled);
        inMemory--;
        return isPassed;
      };
      const pageAfter = async (): Promise<undefined> => undefined;
      const counted = { ...source, nextPage, settle, pageAfter };
      const { database } = createMemoryLeases(clock.now);
      const { producer } = broker;
      const options = { database, source: counted, producer, breaker, clock, pageBudget, log };
      running.push(startMemoryRelay({ ...options, holder: 'shard' }));
      return source;
    });
    await eventually(() => {
      for (const { settled } of sources) expect(settled).to.have.length(10);
    });
    expect(inMemoryMax).to.equal(pagesMax);
  });

  it('sends nothing while the circuit is open, and goes on after its time', async () => {
    const { clock, breaker, broker, start } = scene();
    broker.setMood(() => {
      throw brokerTrouble();
    });
    const source = start('only', keys);
    await eventually(() => expect(breaker.state).to.equal('open'));
    broker.setMood(() => {});
    const { asked } = source;
    await clock.advance(29_000);
    expect(source.asked).to.be.within(asked, asked + 1);
    await clock.advance(1000);
    expect(breaker.waitMs).to.equal(0);
    running[0]?.wake();
    await eventually(() => expect(broker.keys).to.deep.equal(keys));
  });
});
