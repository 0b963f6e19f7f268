import { expect } from 'chai';
import type { CounterTable } from '../../../../src/streams/tables.ts';
import type { Processor, RecordMetadata, TimerSetting } from '../../../../src/streams/timers/processor.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../../support/json-stream.ts';

import { processing, sendAt } from '../../../support/processing.ts';

describe('a process step', () => {
  it('keeps a value per key under its name, hands on what it forwards, and forgets what it deletes', async () => {
    const { driver, seen } = processing<number, string>({
      onRecord: ({ key, value: { kind, amount } }, { store, forward }) => {
        const sum = (store.get() ?? 0) + amount;
        if (kind === 'end') store.delete();
        else store.put(sum);
        for (let part = 0; part < amount; part++) forward(`${key} ${sum} ${part}`);
      },
    });
    sendAt(driver, { amount: 1 }, { amount: 2 }, { of: 'b', amount: 1 });
    await driver.run();
    driver.restart();
    expect([...driver.store.statesOf('step')]).to.deep.equal([
      ['a', { kept: 3 }],
      ['b', { kept: 1 }],
    ]);
    sendAt(driver, { amount: 1, kind: 'end' }, { amount: 1 });
    driver.redeliver();
    await driver.run();
    expect(seen.filter((one) => one.startsWith('a'))).to.deep.equal([
      'a 1 0',
      'a 3 0',
      'a 3 1',
      'a 4 0',
      'a 1 0',
    ]);
    expect([...driver.store.statesOf('step')]).to.deep.equal([
      ['a', { kept: 1 }],
      ['b', { kept: 1 }],
    ]);
  });

  it('knows where a record comes from', async () => {
    const { driver, seen } = processing<never, RecordMetadata>(
      { onRecord: ({ metadata }, { forward }) => forward(metadata) },
      { startMs: 1_000_000 },
    );
    const [plain, early] = [fact({ time: 1_000_000 }), fact({ time: 9_000_000 })];
    driver.send('facts', { ...asRecord(plain), headers: { source: Buffer.from('spec') } });
    driver.send('facts', asRecord(early));
    await driver.run();
    const [first, second] = seen;
    expect({ ...first }).to.deep.equal({
      id: plain.id,
      timeMs: 1_000_000,
      isEarly: false,
      topic: 'facts',
      partition: 0,
      offset: 0,
      headers: { source: Buffer.from('spec') },
    });
    expect([second?.id, second?.timeMs, second?.isEarly, second?.offset]).to.deep.equal([
      early.id,
      9_000_000,
      true,
      1,
    ]);
  });

  it('does not take what is made of records for records of a topic', async () => {
    const offsets: (number | undefined)[] = [];
    const driver = driverOf(
      (t) => {
        t.stream(facts)
          .pipe('as it is', (records) => records)
          .process<never, number | undefined>('behind operators', {
            onRecord: ({ metadata }, { forward }) => forward(metadata.offset),
          })
          .peek((offset) => offsets.push(offset));
      },
      { partitions: 1 },
    );
    sendAt(driver, 1, 2);
    await driver.run();
    expect(offsets).to.deep.equal([undefined, undefined]);
  });

  it('gives what it forwards ids that follow from the record, so that what is behind it counts it once', async () => {
    const counts = { table: 'counts', keyColumn: 'id', columns: ['sold'] } as const satisfies CounterTable;
    const driver = driverOf(
      (t) => {
        const parts = t.stream(facts).process<never, number>('parts', {
          onRecord: ({ value: { amount } }, { forward }) => {
            for (let part = 1; part <= amount; part++) forward(part);
          },
        });
        parts.to({ name: 'parts' }, (part) => part);
        parts.groupByKey().sum(counts, 'sold', (part) => part, {
          action: 'SOLD',
          once: () => ({ aggregateType: 'Order', aggregateId: 'o-1' }),
        });
      },
      { partitions: 1 },
    );
    sendAt(driver, { amount: 3 }, { amount: 3 });
    await driver.run();
    driver.redeliver();
    await driver.run();
    expect(new Set(driver.output.map(({ id }) => id)).size).to.equal(6);
    expect(driver.table('counts')).to.deep.equal([{ id: 'a', sold: 6 }]);
  });

  it('sends a record that it fails on to the dead letters, with nothing of it left', async () => {
    const { driver, seen } = processing<number, string>({
      onRecord: ({ value: { kind } }, { store, forward }) => {
        store.put(1);
        forward('half');
        if (kind === 'bad') throw new Error('Not this one');
      },
    });
    sendAt(driver, { kind: 'bad' });
    await driver.run();
    expect([seen, driver.store.statesOf('step').size, driver.deadLetters.length]).to.deep.equal([[], 0, 1]);
  });

  it('says what is wrong with a processor', async () => {
    const errorOf = async (processor: Processor<Fact, never, never>): Promise<string | undefined> => {
      const { driver } = processing(processor);
      sendAt(driver, 10);
      await driver.run();
      return driver.deadLetters[0]?.error.message;
    };
    const setting = (setting: TimerSetting): Processor<Fact, never, never> => ({
      onRecord: (_, { schedule }) => schedule(setting),
      onTimer: () => {},
    });
    const timer = { name: 'x', atMs: 5, by: 'stream-time' } as const;
    expect(await errorOf({ onRecord: (_, { schedule }) => schedule(timer) })).to.contain('has no onTimer');
    expect(await errorOf(setting({ ...timer, atMs: 1.5 }))).to.contain('whole milliseconds');
    expect(await errorOf({ onRecord: async () => {} })).to.contain('must not be async');
    expect(
      await errorOf({
        onRecord: (_, { schedule }) => {
          for (let index = 0; index <= 1000; index++) schedule({ ...timer, atMs: 20, name: `${index}` });
        },
        onTimer: () => {},
      }),
    ).to.contain('more than 1000 timers');
    expect(() =>
      driverOf((t) => t.stream(facts).process('s', { onRecord: () => {}, expireAfterMs: 0 })),
    ).to.throw('expireAfterMs');
  });
});
