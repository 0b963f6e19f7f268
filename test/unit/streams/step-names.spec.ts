import { expect } from 'chai';
import { countedActions, describeTopology, drawTopology } from '../../../src/streams/describe.ts';
import { named } from '../../../src/streams/step-name.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import type { Topology } from '../../../src/streams/topology.ts';
import { type Fact, facts, specTopology } from '../../support/json-stream.ts';

const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;

/** The same definition, with its functions called as a bundler or a refactoring would have it. */
const written = (functionName: string): Topology => {
  const called = <F extends object>(work: F): F =>
    Object.defineProperty(work, 'name', { value: functionName });
  return specTopology((t) => {
    t.stream(facts)
      .filter(called(({ kind }: Fact) => kind === 'seen'))
      .filter(
        called(({ amount }: Fact) => amount > 0),
        { name: 'sold' },
      )
      .map(called((value: Fact) => value))
      .flatMap(called((value: Fact) => [value]))
      .peek(called(() => {}))
      .groupBy(called(({ of }: Fact) => of))
      .count(counts, 'seen', { action: 'SEEN' });
  });
};

describe('the names of steps', () => {
  it('do not depend on what functions are called: minified code has the same actions, text and picture', () => {
    const [one, other] = [written('LikeCreated'), written('a')];
    expect(countedActions(one)).to.deep.equal(countedActions(other));
    expect(describeTopology(one)).to.equal(describeTopology(other));
    expect(drawTopology(one)).to.equal(drawTopology(other));
  });

  it('are given with the step, and shown', () => {
    expect(countedActions(written('a'))).to.deep.equal([{ filters: ['sold'], action: 'SEEN' }]);
    expect(describeTopology(written('a'))).to.contain('filter sold');
  });

  it('may be given to a function that several steps share; a name given with the step wins', () => {
    const isSold = named('sold', ({ kind }: Fact) => kind === 'sold');
    const text = describeTopology(
      specTopology((t) => {
        t.stream(facts)
          .filter(isSold)
          .filter(isSold, { name: 'sold again' })
          .map(
            named('doubled', (value: Fact) => value),
            { name: 'twice' },
          )
          .groupBy(({ of }) => of, { name: 'of' })
          .count(counts, 'seen', { action: 'SEEN' });
      }),
    );
    for (const label of ['filter sold\n', 'filter sold again', 'map twice', 'group by of'])
      expect(text).to.contain(label);
  });
});
