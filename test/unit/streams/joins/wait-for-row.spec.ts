import { expect } from 'chai';
import { asRecord, driverOf, type Fact, fact, facts, specTopology } from '../../../support/json-stream.ts';

const names = { topic: 'names' } as typeof facts;
const waitMs = 500;
const startMs = 1_000_000;

describe('a record that waits for a row of a global table', () => {
  const build = (kind: 'join' | 'leftJoin' = 'leftJoin') =>
    driverOf(
      (t) => {
        const table = t.globalTable(names, 'names', { rowsMax: 10 });
        const combine = ({ amount }: Fact, row: Fact | undefined) => `${amount} ${row?.amount ?? '-'}`;
        const stream = t.stream(facts);
        const join = stream[kind] as (typeof stream)['leftJoin'];
        join(table, (value) => (value.kind === 'nothing' ? null : value.kind), combine, {
          name: 'waiting',
          waitMs,
        }).to({ name: 'out' }, (text) => text);
      },
      { partitions: 4, startMs },
    );
  const ask = async (driver: ReturnType<typeof build>, given: Partial<Fact>): Promise<void> => {
    driver.send('facts', asRecord(fact({ time: driver.nowMs, ...given })));
    await driver.run();
  };
  const name = async (driver: ReturnType<typeof build>, of: string, amount: number): Promise<void> => {
    driver.send('names', asRecord(fact({ of, amount, time: driver.nowMs })));
    await driver.run();
  };
  const output = (driver: ReturnType<typeof build>) => driver.output.map(({ value }) => value);

  it('has the row when it came meanwhile, and goes on without when it did not', async () => {
    const driver = build();
    await ask(driver, { of: 'x', kind: 'late', amount: 1 });
    await ask(driver, { of: 'y', kind: 'never', amount: 2 });
    await name(driver, 'late', 7);
    await driver.advanceWallClock(waitMs - 1);
    expect(output(driver)).to.deep.equal([]);
    driver.redeliver();
    driver.restart();
    await driver.run();
    await driver.advanceWallClock(1);
    expect(output(driver)).to.have.members(['1 7', '2 -']);
    expect(driver.store.statesOf('waiting').size).to.equal(0);
  });

  it('is left out where only those with a row are wanted, and not held back where it has one or asks for none', async () => {
    const driver = build('join');
    await name(driver, 'known', 7);
    await ask(driver, { of: 'x', kind: 'known', amount: 1 });
    await ask(driver, { of: 'y', kind: 'nothing', amount: 2 });
    await ask(driver, { of: 'z', kind: 'never', amount: 3 });
    expect(output(driver)).to.deep.equal(['1 7']);
    await driver.advanceWallClock(waitMs);
    expect(output(driver)).to.deep.equal(['1 7']);
  });

  it('keeps those behind it of the same key waiting, and nobody else', async () => {
    const driver = build();
    await name(driver, 'known', 7);
    await ask(driver, { of: 'x', kind: 'late', amount: 1 });
    await ask(driver, { of: 'x', kind: 'known', amount: 2 });
    await ask(driver, { of: 'y', kind: 'known', amount: 3 });
    expect(output(driver)).to.deep.equal(['3 7']);
    await name(driver, 'late', 8);
    await driver.advanceWallClock(waitMs);
    expect(output(driver)).to.deep.equal(['3 7', '1 8', '2 7']);
  });

  it('waits by the clock and for the relay, however old it is: a backlog makes no rows be missed', async () => {
    const driver = build();
    await ask(driver, { of: 'x', kind: 'late', amount: 1, time: 1000 });
    await ask(driver, { of: 'x', kind: 'late', amount: 2, time: 900_000 });
    driver.relayHolds(startMs + 1);
    await driver.advanceWallClock(waitMs);
    expect(output(driver)).to.deep.equal([]);
    await name(driver, 'late', 7);
    driver.relayHolds(undefined);
    await driver.advanceWallClock(1);
    expect(output(driver)).to.deep.equal(['1 7', '2 7']);
    expect(driver.output.map(({ timeMs }) => timeMs)).to.deep.equal([1000, 900_000]);
  });

  it('needs a name of its own and a time', () => {
    const join = (wait: { name: string; waitMs: number }) =>
      specTopology((t) => {
        t.stream(facts).join(
          t.globalTable(names, 'names'),
          ({ kind }) => kind,
          ({ of }) => of,
          wait,
        );
      });
    expect(() => join({ name: 'names', waitMs: 1 })).to.throw('two states called names');
    expect(() => join({ name: 'waiting', waitMs: 0 })).to.throw(
      'waiting: waitMs must be a whole number from 1 on',
    );
  });
});
