import { durationText } from './duration-text.ts';
import type { TopologyNode } from './graph.ts';
import { nodesOfTopology, type Topology } from './topology.ts';
import { emitText } from './windowing/emit.ts';
import type { Windows } from './windows.ts';

/** A topology as text: what follows a step is indented below it. */
export const describeTopology = (topology: Topology): string => {
  const { retries, backoffMs, afterRetries } = topology.onFailure;
  const numbers = new Map(nodesOfTopology(topology).map((node, index) => [node, index + 1]));
  const shown = new Set<TopologyNode>();
  const lines = (node: TopologyNode, depth: number): readonly string[] => {
    const indent = '  '.repeat(depth);
    if (shown.has(node)) return [`${indent}→ step ${numbers.get(node)}`];
    shown.add(node);
    return [
      `${indent}${numbers.get(node)}. ${sentenceOf(node)}`,
      ...node.children.flatMap((child) => lines(child, depth + 1)),
    ];
  };
  return [
    `${topology.name}, version ${topology.version}`,
    `  a record that fails is tried ${retries} more times (first pause ${backoffMs} ms), then: ${afterRetries}`,
    ...topology.sources.flatMap(({ node }) => lines(node, 1)),
  ].join('\n');
};

/** The same as a Mermaid flowchart. */
export const drawTopology = (topology: Topology): string => {
  const nodes = nodesOfTopology(topology);
  const names = new Map(nodes.map((node, index) => [node, `n${index + 1}`]));
  const tables = new Map<string, string>();
  const tableName = (table: string): string => {
    const known = tables.get(table) ?? `t${tables.size + 1}`;
    tables.set(table, known);
    return known;
  };
  const edges = nodes.flatMap((node) => {
    const name = names.get(node) ?? '';
    const follow = node.children.map((child) => `  ${name} --> ${names.get(child)}`);
    const looks = node.looksInto ? [`  ${names.get(node.looksInto)} -.-> ${name}`] : [];
    const table = node.counts?.table.table ?? node.state?.table?.table;
    return [...looks, ...follow, ...(table ? [`  ${name} --> ${tableName(table)}`] : [])];
  });
  return [
    'flowchart LR',
    ...nodes.map((node) => `  ${names.get(node)}${shapeOf(node)}`),
    ...edges,
    ...[...tables].map(([table, name]) => `  ${name}[(${quoted(table)})]`),
  ].join('\n');
};

const quoted = (text: string): string => `"${text.replaceAll('"', '#quot;')}"`;

const shapeOf = (node: TopologyNode): string => {
  const text = quoted(sentenceOf(node));
  switch (node.kind) {
    case 'source':
    case 'to':
    case 'repartition':
      return `([${text}])`;
    case 'filter':
    case 'branch':
      return `{{${text}}}`;
    default:
      return node.state ? `[[${text}]]` : `[${text}]`;
  }
};

const sentenceOf = (node: TopologyNode): string => {
  const expiry =
    node.expireAfterMs === undefined
      ? ''
      : `, gone ${durationText(node.expireAfterMs)} after its last change`;
  const windows = node.windows ? `, ${windowsText(node.windows)}` : '';
  switch (node.kind) {
    case 'source':
      return `from ${node.label}`;
    case 'count':
      return `add to ${node.label}${windows} (${node.counts?.action})`;
    case 'aggregate':
      return `aggregate ${node.label}${expiry}`;
    case 'process':
      return `process ${node.label}${expiry}`;
    case 'window':
      return `aggregate ${node.label}${windows}, ${emitText(node.emit ?? 'final')}`;
    case 'in-order':
      return `in order of versions (${node.label})`;
    case 'table':
      return `table ${node.label}${expiry}`;
    case 'global-table':
      return `global table ${node.label}`;
    case 'pipe':
      return `operators ${node.label}`;
    case 'call':
      return `call ${node.label}`;
    default:
      return node.label;
  }
};

const windowsText = (windows: Windows): string => {
  const grace = `grace ${durationText(windows.graceMs)}`;
  switch (windows.kind) {
    case 'fixed':
      return `windows of ${durationText(windows.sizeMs)} every ${durationText(windows.advanceMs)}, ${grace}`;
    case 'session':
      return `sessions with gaps of ${durationText(windows.gapMs)}, ${grace}`;
    case 'sliding':
      return `sliding windows of ${durationText(windows.differenceMs)}, ${grace}`;
  }
};

/** What counting a record of some kind is called. */
export interface CountedAction {
  /** The names that were given to the filters on the way, from the source on. */
  readonly filters: readonly string[];
  readonly action: string;
}

/** The actions of counts that every event has for itself; those of facts are stored with the fact. */
export const countedActions = (topology: Topology): readonly CountedAction[] => {
  const walk = (node: TopologyNode, filters: readonly string[]): readonly CountedAction[] => {
    const passed = node.kind === 'filter' && node.name !== undefined ? [...filters, node.name] : filters;
    const own =
      node.counts?.action && !node.counts.isFact ? [{ filters: passed, action: node.counts.action }] : [];
    return [...own, ...node.children.flatMap((child) => walk(child, passed))];
  };
  return topology.sources.flatMap(({ node }) => walk(node, []));
};
