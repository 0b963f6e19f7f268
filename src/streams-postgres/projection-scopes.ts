import type { SqlRunner } from '../postgres/database.ts';
import type { ProjectionId } from '../streams/ports.ts';
import type { Place } from '../streams/record.ts';
import { loadTopicGrowth, type TopicGrowth } from './partitions/topic-growth.ts';
import { createSmallNumbers } from './small-numbers.ts';

/** The numbers of the places that projections read. */
export interface ProjectionScopes {
  of(projection: ProjectionId, places: readonly Place[]): Promise<readonly number[]>;
  /**
   * Where else ids of these stretches may be, in the order of the requests: under no partition, when they were handled before
   * it was kept; under any, when the topic has got partitions since.
   */
  elsewhere(
    projection: ProjectionId,
    requests: readonly (Place & { readonly bucketStartMs: number })[],
  ): Promise<readonly (readonly number[])[]>;
  /** Topics may have got partitions since it was last asked. */
  lookForGrowth(): Promise<void>;
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
  let growth: ReadonlyMap<string, TopicGrowth> | undefined;

  const scopesOf = ({ name, version }: ProjectionId, places: readonly Place[]): Promise<readonly number[]> =>
    numbers.numbersOf(places.map(({ topic, partition }) => [name, version, topic, partition]));

  const findWithoutPlace = async ({ name, version }: ProjectionId): Promise<readonly number[]> => {
    const id = `${name} ${version}`;
    if (!withoutPlace.has(id)) {
      const [row] = await db.execute<{ id: number }>(withoutPlaceStatement, [name, version]);
      withoutPlace.set(id, row?.id);
    }
    const scope = withoutPlace.get(id);
    return scope === undefined ? [] : [scope];
  };

  const otherPartitions = ({ topic, partition }: Place, partitions: number): readonly Place[] =>
    Array.from({ length: partitions }, (_, other) => ({ topic, partition: other })).filter(
      (place) => place.partition !== partition,
    );

  return {
    of: scopesOf,
    elsewhere: async (projection, requests) => {
      growth ??= await loadTopicGrowth(db);
      const common = await findWithoutPlace(projection);
      const grown = growth;
      return Promise.all(
        requests.map(async (request) => {
          const change = grown.get(request.topic);
          if (!change || request.bucketStartMs >= change.eventsUntilMs) return common;
          return [...common, ...(await scopesOf(projection, otherPartitions(request, change.partitions)))];
        }),
      );
    },
    lookForGrowth: async () => {
      growth = await loadTopicGrowth(db);
    },
  };
};
