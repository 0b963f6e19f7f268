import { expect } from 'chai';
import fc from 'fast-check';
import { foldEffects, withoutRepeats } from '../../../src/streams/fold-effects.ts';
import type { CounterTable, Effect } from '../../../src/streams/topology.ts';

const table: CounterTable = { table: 'counts', keyColumn: 'id', columns: ['a', 'b'] };

const effect: fc.Arbitrary<Effect> = fc.record({
  table: fc.constant(table),
  key: fc.constantFrom('x', 'y', 'z'),
  column: fc.constantFrom('a', 'b', undefined),
  by: fc.integer({ min: -5, max: 5 }),
  handled: fc.option(
    fc.record({
      aggregateType: fc.constant('T'),
      aggregateId: fc.constantFrom('1', '2', '3'),
      action: fc.constantFrom('A', 'B'),
    }),
    { nil: undefined },
  ),
});

describe('foldEffects', () => {
  it('adds up what the effects would have done one by one', () => {
    fc.assert(
      fc.property(fc.array(effect), (effects) => {
        const oneByOne = new Map<string, number>();
        for (const { key, column, by } of effects) {
          if (column) oneByOne.set(`${key}.${column}`, (oneByOne.get(`${key}.${column}`) ?? 0) + by);
        }
        const folded = new Map<string, number>();
        for (const { rows } of foldEffects(effects)) {
          for (const [key, counts] of rows)
            for (const [column, by] of counts) folded.set(`${key}.${column}`, by);
        }
        expect(folded).to.deep.equal(oneByOne);
      }),
    );
  });

  it('touches every key once and in sorted order, so that two batches cannot deadlock', () => {
    fc.assert(
      fc.property(fc.array(effect, { minLength: 1 }), (effects) => {
        const [delta] = foldEffects(effects);
        const keys = [...(delta?.rows.keys() ?? [])];
        expect(keys).to.deep.equal([...new Set(effects.map(({ key }) => key))].sort());
      }),
    );
  });

  it('keeps a row that no count touches: it is created', () => {
    const [delta] = foldEffects([{ table, key: 'new', column: undefined, by: 0, handled: undefined }]);
    expect([...(delta?.rows.keys() ?? [])]).to.deep.equal(['new']);
  });
});

describe('withoutRepeats', () => {
  it('keeps one effect per handled key and every effect without one', () => {
    fc.assert(
      fc.property(fc.array(effect), (effects) => {
        const kept = withoutRepeats(effects);
        const keys = kept.flatMap(({ handled }) => (handled ? [JSON.stringify(handled)] : []));
        const allKeys = effects.flatMap(({ handled }) => (handled ? [JSON.stringify(handled)] : []));
        expect(keys).to.have.length(new Set(allKeys).size);
        expect(kept.filter(({ handled }) => !handled)).to.have.length(
          effects.filter(({ handled }) => !handled).length,
        );
      }),
    );
  });
});
