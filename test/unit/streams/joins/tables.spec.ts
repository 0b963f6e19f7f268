import { expect } from 'chai';
import type { KTable } from '../../../../src/streams/kstream.ts';
import { asRecord, driverOf, type Fact, fact, facts } from '../../../support/json-stream.ts';

const rowsOf = (topic: string) => ({ topic }) as { readonly topic: string; readonly value?: Fact };
const rows = { topic: 'rows' } as { readonly topic: string; readonly value?: Fact | null };

describe('a table', () => {
  it('is read from a topic, filtered and mapped, and tells of rows that are gone as null', async () => {
    const driver = driverOf((t) => {
      const table = t
        .table(rows, 'latest')
        .filter(({ amount }) => amount > 1)
        .mapValues(({ amount }) => amount * 10);
      table.toStream().to({ name: 'changes' }, (amount) => amount);
      t.stream(facts)
        .leftJoin(table, (_, amount) => amount ?? 'none')
        .to({ name: 'joined' }, (amount) => amount);
    });
    for (const amount of [2, 1, 3]) {
      driver.send('rows', asRecord(fact({ amount })));
      await driver.run();
      driver.send('facts', asRecord(fact()));
      await driver.run();
      driver.restart();
    }
    const of = (name: string) =>
      driver.output.filter(({ destination }) => destination === name).map(({ value }) => value);
    expect(of('changes')).to.deep.equal([20, null, 30]);
    expect(of('joined')).to.deep.equal([20, 'none', 30]);
    expect(driver.store.statesOf('latest').size).to.equal(1);
  });

  for (const [kind, wanted] of [
    ['join', ['1 5', '2 5', null]],
    ['leftJoin', ['1 -', '1 5', '2 5', null]],
    ['outerJoin', ['1 -', '1 5', '2 5', '- 5', null]],
  ] as const) {
    it(`is joined with another one by key (${kind}), and loses a row when a side does`, async () => {
      const driver = driverOf((t) => {
        const [left, right] = ['facts', 'others'].map((topic) =>
          t.table(rowsOf(topic), topic).filter(({ amount }) => amount > 0),
        ) as [KTable<Fact, unknown>, KTable<Fact, unknown>];
        const textOf = (one?: Fact, other?: Fact) => `${one?.amount ?? '-'} ${other?.amount ?? '-'}`;
        const join = left[kind] as KTable<Fact, unknown>['outerJoin'];
        join(right, textOf, { name: 'both' })
          .toStream()
          .to({ name: 'changes' }, (row) => row);
      });
      const changes = [
        ['facts', 1],
        ['others', 5],
        ['facts', 2],
        ['facts', 0],
        ['others', 0],
        ['others', 0],
      ] as const;
      for (const [topic, amount] of changes) {
        driver.send(topic, asRecord(fact({ amount })));
        await driver.run();
        driver.redeliver();
        driver.restart();
        await driver.run();
      }
      expect(driver.output.map(({ value }) => value)).to.deep.equal(wanted);
      expect(driver.store.statesOf('both').size).to.equal(0);
    });
  }
});
