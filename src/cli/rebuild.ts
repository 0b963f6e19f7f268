import { Command, InvalidArgumentError, Option } from 'commander';
import { projections } from '../app/projections.ts';
import { type RebuildTools, rebuildToolsOf } from '../app/rebuild-tools.ts';
import { OperatorError } from '../operator-error.ts';
import { UnknownProjection } from '../projection-admin/projection-admin.ts';
import { whyNotRebuildable } from '../rebuild/model-tables.ts';
import type { RebuildProgress } from '../rebuild/rebuild-ports.ts';
import type { RebuildReport } from '../rebuild/rebuild-projection.ts';
import type { Topology } from '../streams/topology.ts';
import { operatorHere } from './operator-here.ts';
import { runSteps } from './progress.ts';
import { rebuildProgress } from './rebuild-progress.ts';
import { describeRebuild, describeRollback } from './rebuild-tables.ts';
import { readConfig, withServers } from './session.ts';
import { stopReason } from './stop-reason.ts';

/** Exit code for a check that has found something. */
const foundSomething = 3;
const usage = 2;

interface Options {
  readonly all?: boolean;
  readonly from: 'journal' | 'kafka';
  readonly dryRun?: boolean;
  readonly keepOld?: boolean;
  readonly concurrency: number;
  readonly acceptDifferences?: boolean;
  readonly rollback?: boolean;
  readonly json?: boolean;
}

const concurrencyMax = 16;
const concurrencyArgument = (text: string): number => {
  const value = /^\d{1,2}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > concurrencyMax)
    throw new InvalidArgumentError(`Allowed is 1 to ${concurrencyMax}.`);
  return value;
};

export const rebuildCommand = (): Command =>
  new Command('rebuild')
    .description(
      'Fill a read model anew beside the live one, compare both row by row, and swap them; or go back to the one before',
    )
    .argument('[projection]', 'as millrace topologies list names it')
    .option('--all', 'every projection that has a read model')
    .addOption(
      new Option('--from <source>', 'where the events come from')
        .choices(['journal', 'kafka'])
        .default('journal'),
    )
    .option('--dry-run', 'fill and compare, but do not swap; exits with 3 when there are differences')
    .option('--keep-old', 'also keep models that earlier rebuilds have replaced')
    .option('--concurrency <N>', 'with --all, so many projections at once', concurrencyArgument, 1)
    .option('--accept-differences', 'swap although the models differ, or records could not be applied')
    .addOption(
      new Option('--rollback', 'bring the model back that was live before').conflicts([
        'all',
        'dryRun',
        'keepOld',
        'acceptDifferences',
      ]),
    )
    .option('--json', 'as JSON')
    .action(async (name: string | undefined, options: Options) => {
      const topologies = chosen(name, options);
      if (options.rollback) await rollBack(topologies, options);
      else await rebuild(topologies, options);
    });

const chosen = (name: string | undefined, { all }: Options): readonly Topology[] => {
  const known = projections(readConfig().config);
  if ((name === undefined) === (all !== true)) {
    throw new OperatorError('Say which read model is meant', {
      remedy: 'Name one projection, or use --all',
      exitCode: usage,
    });
  }
  if (all) return known.filter((topology) => whyNotRebuildable(topology) === undefined);
  const found = known.find((topology) => topology.name === name);
  if (found) return [found];
  throw new UnknownProjection(
    name ?? '',
    known.map((topology) => topology.name),
  );
};

/** The tools, with progress on standard error, for as long as nobody breaks it off. */
const withTools = async <T>(
  title: string,
  routine: (tools: RebuildTools) => Promise<T>,
): Promise<T | undefined> => {
  const asked = stopReason();
  try {
    return await withServers('working', ({ adapters, config, infrastructure, log }) => {
      const { endpoints } = infrastructure;
      const { signal } = asked;
      const work = (onProgress: (progress: RebuildProgress) => void): Promise<T> =>
        routine(
          rebuildToolsOf({ adapters, endpoints, config, who: operatorHere(), log, onProgress, signal }),
        );
      return process.stderr.isTTY
        ? withBar(title, work)
        : work(rebuildProgress({ line: (text) => void process.stderr.write(`${text}\n`) }));
    });
  } catch (error) {
    if (!asked.signal.aborted) throw error;
    throw new OperatorError('Broken off; the live model is as it was, and nothing is left of the rebuild', {
      remedy: 'Start again when it suits',
      cause: error,
    });
  } finally {
    asked.dispose();
  }
};

const withBar = async <T>(
  title: string,
  work: (onProgress: (progress: RebuildProgress) => void) => Promise<T>,
): Promise<T | undefined> => {
  let result: T | undefined;
  await runSteps([
    {
      title,
      run: async (report) => {
        result = await work(rebuildProgress({ bar: report }));
      },
    },
  ]);
  return result;
};

const rebuild = async (topologies: readonly Topology[], options: Options): Promise<void> => {
  const reports =
    (await withTools('Rebuild', (tools) =>
      someAtOnce(topologies, options.concurrency, (topology) =>
        tools.rebuild(topology, {
          from: options.from,
          dryRun: options.dryRun ?? false,
          keepOld: options.keepOld ?? false,
          acceptDifferences: options.acceptDifferences ?? false,
        }),
      ),
    )) ?? [];
  console.log(options.json ? JSON.stringify(reports, null, 2) : reports.map(describeRebuild).join('\n\n'));
  if (reports.some(hasFound)) process.exitCode = foundSomething;
};

const hasFound = ({ outcome, comparison, setAside }: RebuildReport): boolean =>
  outcome !== 'swapped' && ((comparison?.differences ?? 0) > 0 || setAside.count > 0);

/** In the order of the items, so many at a time; the first failure is told when those under way have ended. */
const someAtOnce = async <T, R>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<R>,
): Promise<readonly R[]> => {
  const results: R[] = [];
  const waiting = items.entries();
  const failures: unknown[] = [];
  const line = async (): Promise<void> => {
    for (const [index, item] of waiting) {
      if (failures.length > 0) return;
      try {
        results[index] = await work(item);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, line));
  if (failures.length > 0) throw failures[0];
  return results;
};

const rollBack = async ([topology]: readonly Topology[], { json }: Options): Promise<void> => {
  if (!topology) return;
  const report = await withTools('Rollback', (tools) => tools.rollBack(topology));
  if (report) console.log(json ? JSON.stringify(report, null, 2) : describeRollback(report));
};
