import type { Database, SqlRunner } from '../postgres/database.ts';
import { foldEffects, handledKeyText, withoutRepeats } from '../streams/fold-effects.ts';
import type { BatchCommit, StateStore } from '../streams/ports.ts';
import type { Effect } from '../streams/topology.ts';
import { addToTable } from './add-to-table.ts';
import { markHandled } from './mark-handled.ts';
import { loadCheckpoint, moveCheckpoint } from './move-checkpoint.ts';

export const createPostgresStateStore = (database: Database): StateStore => ({
  loadCheckpoint: (projection, topic, partition) =>
    loadCheckpoint(database, { projection, topic, partition }),
  commit: (batch) => database.transaction((tx) => commitBatch(tx, batch)),
});

/** The checkpoint first: its row lock keeps a second holder of the partition waiting, and then tells it that it is late. */
const commitBatch = async (tx: SqlRunner, batch: BatchCommit): Promise<boolean> => {
  if (!(await moveCheckpoint(tx, batch, batch))) return false;
  const effects = await onlyNew(tx, withoutRepeats(batch.effects));
  for (const delta of foldEffects(effects)) await addToTable(tx, delta);
  return true;
};

const onlyNew = async (tx: SqlRunner, effects: readonly Effect[]): Promise<readonly Effect[]> => {
  const fresh = await markHandled(
    tx,
    effects.flatMap(({ handled }) => (handled ? [handled] : [])),
  );
  return effects.filter(({ handled }) => !handled || fresh.has(handledKeyText(handled)));
};
