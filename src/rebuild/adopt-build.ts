import { writeAudit } from '../operator-audit/write-audit.ts';
import { OperatorError } from '../operator-error.ts';
import type { Database } from '../postgres/database.ts';
import { codeOf } from '../postgres/sql-error.ts';
import { nodesOfTopology, type Topology } from '../streams/topology.ts';
import { findLiveBuild, type LiveBuild } from '../streams-postgres/builds/live-build.ts';
import { holdLive } from './hold-live.ts';
import { whyNotRebuildable } from './model-tables.ts';
import { lockNotAvailable } from './retry-while-locked.ts';

export interface Adoption {
  readonly projection: string;
  readonly build: number;
  /** Versions of the definition. */
  readonly from: number;
  readonly to: number;
  /** States of steps that the new definition does not have, by the steps' names. */
  readonly droppedStates: readonly { readonly state: string; readonly keys: number }[];
}

const dropStatesStatement = {
  name: 'drop-states-of-former-steps',
  text: `
    with dropped as (
      delete from projection_state where projection = $1 and version = $2 and state <> all ($3::text[]) returning state
    )
    select state, count(*)::integer as keys from dropped group by state order by state`,
};

const adoptStatement = {
  name: 'adopt-build',
  text: `
    update projection_build set definition_version = $4, awaits_fill = false
    where projection = $1 and version = $2 and definition_version = $3
    returning true`,
};

/**
 * Lets another version of a definition go on with the live build where the one before stood: its checkpoints, handled ids, tasks,
 * parked keys and tables. For projections that cannot be filled anew. A state is kept where the definition has a step of that
 * name, which says by it that it can read what is there; others are dropped, because nothing would ever close or read them.
 * Undefined when somebody else was faster, and `busy` when the build is never free for a moment. Commits of the version before are refused from then on.
 */
export const adoptBuild = async (
  { database, who }: { readonly database: Database; readonly who: string },
  topology: Topology,
  live: LiveBuild,
): Promise<Adoption | 'busy' | undefined> => {
  const { name: projection, version: to } = topology;
  const { version, definitionVersion: from } = live;
  if (whyNotRebuildable(topology) === undefined)
    throw new OperatorError(`${projection} can be filled anew, so that its model fits version ${to}`, {
      remedy: `npx millrace rebuild ${projection}`,
      exitCode: 2,
    });
  const states = nodesOfTopology(topology).flatMap(({ state }) => (state ? [state.name] : []));
  return holdLive(database, { projection, version }, async (tx) => {
    const adopted = await tx.execute(adoptStatement, [projection, version, from, to]);
    if (adopted.length === 0) return undefined;
    const droppedStates = await tx.execute<Adoption['droppedStates'][number]>(dropStatesStatement, [
      projection,
      version,
      states,
    ]);
    await writeAudit(tx, {
      who,
      action: 'projections.adopt',
      target: { projection, build: version, from, to, droppedStates },
    });
    return { projection, build: version, from, to, droppedStates };
  }).catch((error: unknown) => {
    if (codeOf(error) === lockNotAvailable) return 'busy' as const;
    throw error;
  });
};

/** As an operator wants it, whichever version is the newer one; undefined when this one has it already. */
export const adoptByHand = async (
  ports: { readonly database: Database; readonly who: string },
  topology: Topology,
): Promise<Adoption | undefined> => {
  const { name } = topology;
  const live = await findLiveBuild(ports.database, name);
  if (!live)
    throw new OperatorError(`${name} has never been run`, { remedy: 'There is nothing to take over' });
  if (live.definitionVersion === topology.version) return undefined;
  const adoption = await adoptBuild(ports, topology, live);
  if (adoption === 'busy')
    throw new OperatorError(`${name} is never free for a moment`, { remedy: 'Try again' });
  if (adoption) return adoption;
  throw new OperatorError(`Another version of ${name} has taken over meanwhile`, {
    remedy: 'See which processes run, and start again',
  });
};
