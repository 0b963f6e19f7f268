import type { SqlRunner } from '../postgres/database.ts';
import type { Fact, ProjectionId } from '../streams/ports.ts';
import { createSmallNumbers } from './small-numbers.ts';

/** The numbers of what facts can be about: all of a fact but the aggregate's id. */
export interface FactKinds {
  of(projection: ProjectionId, facts: readonly Fact[]): Promise<readonly number[]>;
}

export const createFactKinds = (db: SqlRunner): FactKinds => {
  const numbers = createSmallNumbers(db, {
    table: 'projection_fact_kind',
    columns: [
      { name: 'projection', type: 'text' },
      { name: 'version', type: 'integer' },
      { name: 'aggregate_type', type: 'text' },
      { name: 'action', type: 'text' },
    ],
  });
  return {
    of: ({ name, version }, facts) =>
      numbers.numbersOf(facts.map(({ aggregateType, action }) => [name, version, aggregateType, action])),
  };
};
