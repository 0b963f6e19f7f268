import { describeTopology, drawTopology } from '../streams/describe.ts';
import type { Topology } from '../streams/topology.ts';
import { projections } from './projections.ts';

/** Every projection as a document with its picture, by file name; over topics without a prefix. */
export const topologyDocuments = (): ReadonlyMap<string, string> => {
  const topologies = projections({ topics: { prefix: '' } });
  return new Map([
    ['README.md', overviewOf(topologies)],
    ...topologies.map((topology) => [`${topology.name}.md`, documentOf(topology)] as const),
  ]);
};

const note = '<!-- Written by `npm run docs:topologies` from the definitions in src/projections. -->';

const overviewOf = (topologies: readonly Topology[]): string =>
  [
    note,
    '',
    '# Projections',
    '',
    ...topologies.map(
      ({ name, sources }) =>
        `- [${name}](${name}.md) reads ${sources.map(({ topic }) => `\`${topic}\``).join(', ')}`,
    ),
    '',
  ].join('\n');

const documentOf = (topology: Topology): string =>
  [
    note,
    '',
    `# ${topology.name}`,
    '',
    '```mermaid',
    drawTopology(topology),
    '```',
    '',
    '```',
    describeTopology(topology),
    '```',
    '',
  ].join('\n');
