import { openAdapters } from '../../src/app/adapters.ts';
import { projections } from '../../src/app/projections.ts';
import { type RebuildTools, rebuildToolsOf } from '../../src/app/rebuild-tools.ts';
import type { RebuildProgress } from '../../src/rebuild/rebuild-ports.ts';
import type { RebuildOptions } from '../../src/rebuild/rebuild-projection.ts';
import type { Topology } from '../../src/streams/topology.ts';
import { silentLog } from './silent-log.ts';
import type { Workspace } from './stack.ts';

export const fromJournal: RebuildOptions = {
  from: 'journal',
  dryRun: false,
  keepOld: false,
  acceptDifferences: false,
};

/** The operator's tools on a workspace. */
export const openRebuildTools = (
  { config, endpoints, closeAtEnd }: Workspace,
  options: { signal?: AbortSignal; onProgress?: (progress: RebuildProgress) => void } = {},
): RebuildTools => {
  const adapters = openAdapters(config, endpoints, silentLog());
  closeAtEnd(() => adapters.database.close());
  return rebuildToolsOf({
    adapters,
    endpoints,
    config,
    who: 'spec',
    log: silentLog(),
    onProgress: options.onProgress ?? (() => {}),
    signal: options.signal ?? new AbortController().signal,
  });
};

export const projectionOf = ({ config }: Workspace, name: string): Topology => {
  const found = projections(config).find((topology) => topology.name === name);
  if (!found) throw new Error(`There is no projection ${name}`);
  return found;
};

/** Projections that can be rebuilt, in the order in which they are listed; the others derive events or call out. */
export const rebuildable = [
  'product-statistic',
  'product-trend',
  'product-momentum',
  'order-view',
  'order-payment',
  'order-receipt',
  'stock-level',
  'stock-outage',
] as const;
