import { OperatorError } from '../operator-error.ts';
import type { Topology } from '../streams/topology.ts';
import { findLiveBuild } from '../streams-postgres/builds/live-build.ts';
import { findTornBeginning } from './journal-beginning.ts';
import { findLack } from './live-lack.ts';
import { oneRebuildAtATime } from './one-rebuild.ts';
import type { RebuildPorts } from './rebuild-ports.ts';
import { type RebuildReport, rebuildWhole, requireRebuildable } from './rebuild-projection.ts';

/** Filling from the journal by itself would not be right here: somebody has to decide. */
export class FillNeedsDecision extends OperatorError {}

/**
 * Fills a live model from the journal that cannot get from the topics what it lacks, and lets that take its place; undefined when
 * it lacks nothing. Nobody watches: broken off, it leaves what it has, and it decides nothing that is not clear.
 */
export const fillLive = (ports: RebuildPorts, topology: Topology): Promise<RebuildReport | undefined> => {
  requireRebuildable(topology);
  return oneRebuildAtATime(ports.database, topology.name, async () => {
    const live = await findLiveBuild(ports.database, topology.name);
    const lack = live && (await findLack(ports, topology, live));
    if (!live || !lack) return undefined;
    // A model of another version is left to the processes that have that version.
    if (!live.awaitsFill && live.definitionVersion !== topology.version) return undefined;
    await lookAtJournal(ports, topology, { isEmpty: live.awaitsFill });
    const report = await rebuildWhole(ports, topology, {
      from: 'journal',
      dryRun: false,
      keepOld: false,
      acceptDifferences: false,
      resumeLater: true,
    });
    if (report.outcome === 'swapped') return report;
    throw new FillNeedsDecision(
      `${topology.name} was not filled from the journal: ${report.setAside.count} events could not be applied, the first: ${report.setAside.shown[0]}`,
      {
        remedy: `Mend the projection, or do without them: npx millrace rebuild ${topology.name} --accept-differences`,
      },
    );
  });
};

/** A model that has something must not be replaced by one that has less than that. */
const lookAtJournal = async (
  { database, log }: RebuildPorts,
  { name }: Topology,
  { isEmpty }: { readonly isEmpty: boolean },
): Promise<void> => {
  const beginning = await findTornBeginning(database);
  if (!beginning) return;
  if (isEmpty)
    log.error(
      { projection: name, journalBegins: beginning },
      'The journal has lost its beginning: the read model is filled with what it has, and what was before is missing',
    );
  else
    throw new FillNeedsDecision(
      `The journal begins with ${beginning.toISOString()}, and the read model of ${name} may have what was before`,
      {
        remedy: `To fill it with what the journal has: npx millrace rebuild ${name}. To keep it and do without what is lost: npx millrace topologies accept-loss ${name}`,
      },
    );
};
