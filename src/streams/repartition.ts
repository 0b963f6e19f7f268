import { type DerivingStep, derive } from './derive.ts';
import type { SourceTime } from './event-time.ts';
import { follow, type StepContext, type TopologyNode } from './graph.ts';
import type { StreamOf } from './kstream.ts';

/** What a repartition carries; the value has to be JSON. */
export interface Rekeyed {
  readonly through: string;
  readonly key: string;
  readonly value: unknown;
}

/** The topic that records go through on their way to another key, and how its values are read. */
export interface Repartition {
  readonly topic: string;
  readonly read: (value: unknown) => Rekeyed;
}

export type OpenSource = (from: StreamOf<unknown>, time?: SourceTime) => TopologyNode;

/** The topology that is being built. */
export interface RepartitionedTopology {
  readonly name: string;
  readonly repartition?: Repartition;
  readonly open: OpenSource;
}

/** A way to another key's partition. */
export interface Way {
  /** What a step that sends is to say of itself. */
  readonly sender: Required<Pick<TopologyNode, 'destination' | 'derives'>>;
  /** Sends a value to a key; answers with the id that it arrives with. */
  send(to: string, value: unknown, at: StepContext): string;
  /** Where what was sent comes in, with its key. */
  readonly arrivals: TopologyNode;
}

/** Out through the outbox under the new key, and in again from the topic, where that key has its partition. */
export const openWay = (
  { name, repartition, open }: RepartitionedTopology,
  { through, keyedBy }: { readonly through: string; readonly keyedBy?: string | undefined },
): Way => {
  if (!repartition) throw new Error(`${name}: say with repartition where ${through} goes through`);
  const destination = `${name}/${through}`;
  const step: DerivingStep = { name: through, topology: name, destination };
  const arrivals = follow(open(repartition), {
    kind: 'group',
    label: `by ${through}`,
    ...(keyedBy !== undefined && { keyedBy }),
    compile: (next) => (_key, value, at) => {
      const rekeyed = repartition.read(value);
      if (rekeyed.through === destination) next(rekeyed.key, rekeyed.value, at);
    },
  });
  return {
    sender: { destination, derives: through },
    send: (key, value, at) =>
      derive(step, { key, value: { through: destination, key, value } satisfies Rekeyed }, at),
    arrivals,
  };
};

/** A stream by another key. */
export const rekeyed = <V>(
  parent: TopologyNode,
  topology: RepartitionedTopology,
  key: (value: V) => string,
  options: { readonly through: string; readonly keyedBy?: string },
): TopologyNode => {
  const way = openWay(topology, options);
  follow(parent, {
    kind: 'repartition',
    label: `repartition ${options.through}`,
    ...way.sender,
    compile: () => (_key, value, at) => {
      way.send(key(value as V), value, at);
    },
  });
  return way.arrivals;
};
