import type { Database, SqlRunner } from '../postgres/database.ts';
import {
  type BatchCommit,
  BuildReplaced,
  type CommitOutcome,
  type DerivedEvent,
  type HandledIds,
  type ProjectionId,
  ProjectionPaused,
  type StateStore,
} from '../streams/ports.ts';
import { type AddToTable, createAddToTable } from './add-to-table.ts';
import { changeParkedKeys } from './change-parked-keys.ts';
import { createFactKinds, type FactKinds } from './fact-kinds.ts';
import { findDue } from './find-due.ts';
import { foldCounters } from './fold-counters.ts';
import { createFindTable } from './known-tables.ts';
import { loadChanged } from './load-changed.ts';
import { loadHandled } from './load-handled.ts';
import { loadPlaces } from './load-places.ts';
import { loadStates } from './load-states.ts';
import { isKnownFact, markFacts, type ToldFact } from './mark-facts.ts';
import { moveCheckpoints } from './move-checkpoints.ts';
import { noteLogBreaks } from './note-log-breaks.ts';
import { createProjectionScopes, type ProjectionScopes } from './projection-scopes.ts';
import { asRefusedData } from './refused-data.ts';
import { reopenHandled } from './reopen-handled.ts';
import { createRowStatements, type RowStatementsOf } from './row-table.ts';
import { type Segment, storeHandled, storeMissed } from './store-handled.ts';
import { tellChanges } from './tell-changes.ts';
import { writeStates } from './write-states.ts';

export interface PostgresStateStoreOptions {
  readonly database: Database;
  /** Appends what a batch derives to the outbox, in the batch's transaction. */
  readonly appendDerived: (tx: SqlRunner, events: readonly DerivedEvent[]) => Promise<void>;
  /** A batch came for a build that another one has replaced, or for a projection that is paused. */
  readonly onTurnedAway?: (projection: ProjectionId) => void;
  /** Versions of the definitions by projection: a batch of one that another version has taken over from is refused. */
  readonly definitions?: ReadonlyMap<string, number>;
  /** Tables whose changes are told to whoever follows them. */
  readonly told?: {
    readonly tables: ReadonlySet<string>;
    /** A batch that changed one of them was committed. */
    readonly onChanged: () => void;
  };
}

export const createPostgresStateStore = (options: PostgresStateStoreOptions): StateStore => {
  const { database } = options;
  const findTable = createFindTable();
  const scopes = createProjectionScopes(database);
  const kinds = createFactKinds(database);
  const addToTable = createAddToTable(findTable);
  const rowStatementsOf = createRowStatements(findTable);
  const hopingForNewFacts = createHope();

  return {
    loadPlaces: async (projection, places) => {
      // Whoever adds partitions fences all that run: they come here before they go on.
      await scopes.lookForGrowth();
      return loadPlaces(database, projection, places);
    },
    loadHandled: (projection, requests) => loadHandled(database, scopes, projection, requests),
    loadStates: (projection, requests) => loadStates(database, rowStatementsOf, projection, requests),
    loadChanged: (projection, request) => loadChanged(database, projection, request),
    findDue: (projection, request) => findDue(database, projection, request),
    commit: async (batch) => {
      try {
        const numbered = await numberBatch(batch, scopes, kinds);
        const sinks = { ...options, addToTable, rowStatementsOf };
        const { hasTold, ...outcome } = await hopingForNewFacts(batch.projection, (factsAreNew) =>
          database.transaction((tx) => commitBatch(tx, numbered, { ...sinks, factsAreNew })),
        );
        if (hasTold) options.told?.onChanged();
        return outcome;
      } catch (error) {
        if (error instanceof Fenced) return { kind: 'fenced' };
        if (error instanceof BuildReplaced || error instanceof ProjectionPaused)
          options.onTurnedAway?.(batch.projection);
        throw asRefusedData(error);
      }
    },
  };
};

/** Undoes the transaction of a batch that came too late. */
class Fenced extends Error {}

interface NumberedBatch extends BatchCommit {
  readonly segments: readonly Segment[];
  readonly missedSegments: readonly Segment[];
  readonly reopenedSegments: readonly Segment[];
  readonly toldFacts: readonly ToldFact[];
}

const numberBatch = async (
  batch: BatchCommit,
  scopes: ProjectionScopes,
  kinds: FactKinds,
): Promise<NumberedBatch> => {
  const { projection, handled, missed, reopened, facts } = batch;
  const [scopeOf, missedScopeOf, reopenedSegments, kindOf] = await Promise.all([
    scopes.of(projection, handled),
    missed.length === 0 ? [] : scopes.of(projection, missed),
    reopened.length === 0 ? [] : everywhere(scopes, projection, reopened),
    kinds.of(
      projection,
      facts.map(({ fact }) => fact),
    ),
  ]);
  return {
    ...batch,
    segments: segmentsOf(handled, scopeOf),
    missedSegments: segmentsOf(missed, missedScopeOf),
    reopenedSegments,
    toldFacts: facts.map((effect, index) => ({ ...effect, kind: kindOf[index] ?? 0 })),
  };
};

const segmentsOf = (handled: readonly HandledIds[], scopeOf: readonly number[]): readonly Segment[] =>
  handled.map(({ bucketStartMs, ids }, index) => ({ scope: scopeOf[index] ?? 0, bucketStartMs, ids }));

/** Where partitions were added, or ids were stored before places were, they may be in another scope than their own. */
const everywhere = async (
  scopes: ProjectionScopes,
  projection: ProjectionId,
  given: readonly HandledIds[],
): Promise<readonly Segment[]> => {
  const [own, elsewhere] = await Promise.all([
    scopes.of(projection, given),
    scopes.elsewhere(projection, given),
  ]);
  return given.flatMap(({ bucketStartMs, ids }, index) =>
    [own[index] ?? 0, ...(elsewhere[index] ?? [])].map((scope) => ({ scope, bucketStartMs, ids })),
  );
};

/** Batches of a projection that look at every fact after one has come a second time. */
const waryBatches = 20;

/** Facts that come a second time are rare in most projections. Where one does, the batch is done again with an eye on them. */
const createHope = () => {
  const wary = new Map<string, number>();
  return async <T>({ name }: ProjectionId, commit: (factsAreNew: boolean) => Promise<T>): Promise<T> => {
    const left = wary.get(name) ?? 0;
    if (left > 0) {
      wary.set(name, left - 1);
      return commit(false);
    }
    try {
      return await commit(true);
    } catch (error) {
      if (!isKnownFact(error)) throw error;
      wary.set(name, waryBatches);
      return commit(false);
    }
  };
};

interface Sinks extends Pick<PostgresStateStoreOptions, 'appendDerived' | 'told' | 'definitions'> {
  readonly addToTable: AddToTable;
  readonly rowStatementsOf: RowStatementsOf;
  readonly factsAreNew: boolean;
}

/** The checkpoints first: their locks keep a second holder of a place waiting, and then tell it that it is late. */
const commitBatch = async (
  tx: SqlRunner,
  batch: NumberedBatch,
  sinks: Sinks,
): Promise<CommitOutcome & { readonly hasTold: boolean }> => {
  const { projection } = batch;
  if (!(await moveCheckpoints(tx, batch, sinks.definitions?.get(projection.name)))) throw new Fenced();
  await noteLogBreaks(tx, projection, batch.moves);
  if (!(await changeParkedKeys(tx, projection, batch.parked))) throw new Fenced();
  await reopenHandled(tx, batch.reopenedSegments);
  await storeHandled(tx, batch.segments);
  await storeMissed(tx, batch.missedSegments);
  const newFacts = await markFacts(tx, batch.toldFacts, { areNew: sinks.factsAreNew });
  const deltas = foldCounters(batch.deltas, newFacts);
  for (const delta of deltas) await sinks.addToTable(tx, delta);
  await writeStates(tx, sinks.rowStatementsOf, projection, batch.states);
  if (batch.derived.length > 0) await sinks.appendDerived(tx, batch.derived);
  const hasTold = sinks.told
    ? await tellChanges(tx, sinks.told.tables, { deltas, states: batch.states })
    : false;
  return { kind: 'committed', knownFacts: batch.facts.length - newFacts.length, hasTold };
};
