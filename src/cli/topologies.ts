import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { projections } from '../app/projections.ts';
import { topologyDocuments } from '../app/topology-documents.ts';
import { OperatorError } from '../operator-error.ts';
import { projectRoot } from '../project-root.ts';
import { describeTopology, drawTopology } from '../streams/describe.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import { acceptLossCommand } from './accept-loss.ts';
import { adoptCommand } from './adopt.ts';
import { readConfig } from './session.ts';
import { table } from './table.ts';

const foundSomething = 3;
const documentsDir = join(projectRoot, 'docs', 'topologies');

export const topologiesCommand = (): Command =>
  new Command('topologies')
    .description('The projections: what they read, compute and keep')
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(documentCommand())
    .addCommand(acceptLossCommand(find))
    .addCommand(adoptCommand(find));

const listCommand = (): Command =>
  new Command('list')
    .description('Every projection with its topics and what becomes of records that fail')
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) => {
      const listed = projections(readConfig().config).map((topology) => ({
        name: topology.name,
        version: topology.version,
        topics: topicsOf(topology),
        onFailure: topology.onFailure,
      }));
      if (json) console.log(JSON.stringify(listed, null, 2));
      else {
        const rows = listed.map(({ name, version, topics, onFailure }) => [
          name,
          String(version),
          topics.join(' '),
          `${onFailure.retries} retries, then ${onFailure.afterRetries}`,
        ]);
        console.log(table([['PROJECTION', 'VERSION', 'TOPICS', 'A RECORD THAT FAILS'], ...rows]));
      }
    });

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
  throw new OperatorError(`There is no projection ${name}`, {
    remedy: `It is one of ${all.map((topology) => topology.name).join(', ')}`,
    exitCode: 2,
  });
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
