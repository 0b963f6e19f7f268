import { nodesOf, type TopologyNode } from '../graph.ts';

/** Sides of a join that must lie together, as far as the topology can tell. */
export interface CoPartitioned {
  /** The join, as descriptions show it. */
  readonly step: string;
  /** What the keys of its sides are, where their sources say so. */
  readonly keys: ReadonlySet<string>;
  /** Topics whose partitions must be as many. */
  readonly topics: ReadonlySet<string>;
}

/** For every join: what its sides come from. */
export const coPartitionedIn = (
  sources: readonly { readonly topic: string; readonly node: TopologyNode }[],
): readonly CoPartitioned[] => {
  const nodes = nodesOf(sources.map(({ node }) => node));
  const topics = new Map(sources.map(({ topic, node }) => [node, topic]));
  const parents = new Map<TopologyNode, TopologyNode[]>();
  for (const node of nodes) {
    for (const child of node.children) parents.set(child, [...(parents.get(child) ?? []), node]);
  }
  return nodes
    .filter(({ meets }) => meets)
    .map((node) => {
      const above = ancestorsOf([...(parents.get(node) ?? []), ...(node.meets ?? [])], parents);
      return {
        step: node.label,
        keys: new Set(above.flatMap(({ keyedBy }) => keyedBy ?? [])),
        topics: new Set(above.flatMap((one) => topics.get(one) ?? [])),
      };
    });
};

/** Up to where the key comes from: a repartition gives another one, and other partitions. */
const ancestorsOf = (
  from: readonly TopologyNode[],
  parents: ReadonlyMap<TopologyNode, readonly TopologyNode[]>,
): readonly TopologyNode[] => {
  const seen = new Set<TopologyNode>();
  const visit = (node: TopologyNode): void => {
    if (seen.has(node)) return;
    seen.add(node);
    for (const parent of parents.get(node) ?? []) visit(parent);
  };
  for (const node of from) visit(node);
  return [...seen];
};

/** Records of one key on one side meet those of the same key on the other: both must mean the same by it. */
export const requireSameKeys = (
  topology: string,
  sources: readonly { readonly topic: string; readonly node: TopologyNode }[],
): void => {
  for (const { step, keys, topics } of coPartitionedIn(sources)) {
    if (keys.size < 2) continue;
    throw new Error(
      `${topology}: the sides of "${step}" have different keys (${[...keys].join(', ')}; topics ${[...topics].join(', ')}), ` +
        'so that what belongs together lies in different partitions. Bring one side to the key of the other with ' +
        'selectKey(key, { through }) before the join; tables can be joined by a foreign key, with ' +
        'join(other, foreignKey, combine, { name, through }), and small ones looked up in with globalTable',
    );
  }
};
