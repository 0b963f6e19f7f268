import { nodesOf, type TopologyNode } from './graph.ts';

/** Two steps with one name would share their state, or give the same ids to different events. */
export const requireUniqueNames = (
  topology: string,
  sources: readonly { readonly node: TopologyNode }[],
): void => {
  const nodes = nodesOf(sources.map(({ node }) => node));
  const shared = twiceIn(
    nodes.flatMap(({ state }) => (state ? [state.name, ...(state.expiry ? [state.expiry.name] : [])] : [])),
  );
  if (shared !== undefined) throw new Error(`${topology} has two states called ${shared}`);
  const step = twiceIn(nodes.flatMap(({ derives }) => derives ?? []));
  if (step === undefined) return;
  throw new Error(
    `${topology} has two steps called ${step} that derive events: give one of them a name of its own`,
  );
};

const twiceIn = (names: readonly string[]): string | undefined =>
  names.find((name, index) => names.indexOf(name) !== index);
