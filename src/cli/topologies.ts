import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { projectionAdminOf } from '../app/projection-admin.ts';
import { projections } from '../app/projections.ts';
import { topologyDocuments } from '../app/topology-documents.ts';
import { projectRoot } from '../project-root.ts';
import { type ProjectionState, UnknownProjection } from '../projection-admin/projection-admin.ts';
import { describeTopology, drawTopology } from '../streams/describe.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import { acceptLossCommand } from './accept-loss.ts';
import { adoptCommand } from './adopt.ts';
import { pauseProjectionsCommand, resumeProjectionsCommand } from './pause-projections.ts';
import { readConfig, withDatabase } from './session.ts';
import { table } from './table.ts';

const foundSomething = 3;
const documentsDir = join(projectRoot, 'docs', 'topologies');

export const topologiesCommand = (): Command =>
  new Command('topologies')
    .description('The projections: what they read, compute and keep, and whether they are paused')
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(pauseProjectionsCommand())
    .addCommand(resumeProjectionsCommand())
    .addCommand(documentCommand())
    .addCommand(acceptLossCommand(find))
    .addCommand(adoptCommand(find));

const listCommand = (): Command =>
  new Command('list')
    .description(
      'Every projection with its topics, what becomes of records that fail, and whether it is paused',
    )
    .option('--json', 'as JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const states = await statesIfPossible();
      const listed = projections(readConfig().config).map((topology) => ({
        name: topology.name,
        version: topology.version,
        ...stateOf(topology.name, states),
        topics: topicsOf(topology),
        onFailure: topology.onFailure,
      }));
      if (json) console.log(JSON.stringify(listed, null, 2));
      else {
        const rows = listed.map(({ name, version, state, pause, topics, onFailure }) => [
          name,
          String(version),
          pause ? `paused by ${pause.by}` : state,
          topics.join(' '),
          `${onFailure.retries} retries, then ${onFailure.afterRetries}`,
        ]);
        console.log(table([['PROJECTION', 'VERSION', 'STATE', 'TOPICS', 'A RECORD THAT FAILS'], ...rows]));
      }
    });

/** What a program defines can be listed without its database; what operators have said cannot. */
const statesIfPossible = async (): Promise<readonly ProjectionState[] | undefined> => {
  try {
    return await withDatabase(({ database, config }) => projectionAdminOf(database, config).list());
  } catch (error) {
    console.error(`Whether projections are paused is not known: ${(error as Error).message}`);
    return undefined;
  }
};

const stateOf = (
  name: string,
  states: readonly ProjectionState[] | undefined,
): { readonly state: 'active' | 'paused' | 'unknown'; readonly pause: ProjectionState['pause'] } => {
  const pause = states?.find((known) => known.name === name)?.pause ?? null;
  if (pause) return { state: 'paused', pause };
  return { state: states ? 'active' : 'unknown', pause };
};

const showCommand = (): Command =>
  new Command('show')
    .description('One projection step by step')
    .argument('<projection>', 'its name')
    .option('--mermaid', 'as a Mermaid flowchart')
    .action((name: string, { mermaid }: { mermaid?: boolean }) => {
      const topology = find(name);
      console.log(mermaid ? drawTopology(topology) : describeTopology(topology));
    });

const find = (name: string): Topology => {
  const all = projections(readConfig().config);
  const found = all.find((topology) => topology.name === name);
  if (found) return found;
  throw new UnknownProjection(
    name,
    all.map((topology) => topology.name),
  );
};

const documentCommand = (): Command =>
  new Command('document')
    .description('Write the pictures in docs/topologies')
    .option('--check', 'only say whether they are current; exits with 3 when they are not')
    .action(({ check }: { check?: boolean }) => {
      const documents = topologyDocuments();
      const stale = staleFiles(documents);
      if (check && stale.length > 0) {
        console.error(`not current: ${stale.join(', ')}\nRun: npm run docs:topologies`);
        process.exitCode = foundSomething;
        return;
      }
      if (!check) write(documents, stale);
      console.log(`ok: ${documents.size} documents are current`);
    });

/** Files that differ, are missing, or are there for a projection that is gone. */
const staleFiles = (documents: ReadonlyMap<string, string>): readonly string[] => {
  const there = existing();
  return [...new Set([...there, ...documents.keys()])].filter(
    (file) => !there.includes(file) || readFileSync(join(documentsDir, file), 'utf8') !== documents.get(file),
  );
};

const existing = (): readonly string[] => {
  try {
    return readdirSync(documentsDir);
  } catch {
    return [];
  }
};

const write = (documents: ReadonlyMap<string, string>, stale: readonly string[]): void => {
  mkdirSync(documentsDir, { recursive: true });
  for (const file of stale) {
    const text = documents.get(file);
    if (text === undefined) rmSync(join(documentsDir, file));
    else writeFileSync(join(documentsDir, file), text);
  }
};
