import type { SqlRunner } from '../postgres/database.ts';
import type { ProjectionId } from '../streams/ports.ts';
import type { Place } from '../streams/record.ts';
import { createSmallNumbers } from './small-numbers.ts';

/** The numbers of the places that projections read. */
export interface ProjectionScopes {
  of(projection: ProjectionId, places: readonly Place[]): Promise<readonly number[]>;
  /** Where ids are that were handled before their partition was kept; they hold for every place. */
  withoutPlace(projection: ProjectionId): Promise<number | undefined>;
}

const withoutPlaceStatement = {
  name: 'find-scope-without-place',
  text: 'select id from projection_scope where projection = $1 and version = $2 and partition = -1',
};

export const createProjectionScopes = (db: SqlRunner): ProjectionScopes => {
  const numbers = createSmallNumbers(db, {
    table: 'projection_scope',
    columns: [
      { name: 'projection', type: 'text' },
      { name: 'version', type: 'integer' },
      { name: 'topic', type: 'text' },
      { name: 'partition', type: 'integer' },
    ],
  });
  // Only a migration makes them: what is not there now will not come.
  const withoutPlace = new Map<string, number | undefined>();

  return {
    of: ({ name, version }, places) =>
      numbers.numbersOf(places.map(({ topic, partition }) => [name, version, topic, partition])),
    withoutPlace: async ({ name, version }) => {
      const id = `${name} ${version}`;
      if (!withoutPlace.has(id)) {
        const [row] = await db.execute<{ id: number }>(withoutPlaceStatement, [name, version]);
        withoutPlace.set(id, row?.id);
      }
      return withoutPlace.get(id);
    },
  };
};
