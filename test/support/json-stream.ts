import { v7 as uuidv7 } from 'uuid';
import type { RecordDecoder } from '../../src/streams/ports.ts';
import { type SentRecord, TopologyTestDriver } from '../../src/streams/testing/topology-test-driver.ts';
import {
  type Topology,
  type TopologyBuilder,
  type TopologyOptions,
  topology,
} from '../../src/streams/topology.ts';

/** Records of a stream that needs no schema: JSON with an id and a time. */
export interface Fact {
  readonly id: string;
  readonly time: number;
  readonly kind: string;
  readonly of: string;
  readonly amount: number;
}

export const jsonDecoder: RecordDecoder = {
  decode: async ({ records, ...batch }) => ({
    ...batch,
    records: records.map((raw) => {
      try {
        const value = JSON.parse(raw.value?.toString() ?? '') as Fact;
        return { raw, key: raw.key?.toString() ?? null, value, id: value.id, timeMs: value.time };
      } catch (error) {
        return { raw, error: error as Error };
      }
    }),
  }),
};

export const fact = (given: Partial<Fact> = {}): Fact => ({
  id: uuidv7(),
  time: 1_000_000,
  kind: 'seen',
  of: 'a',
  amount: 1,
  ...given,
});

export const asRecord = (value: Fact, key: string = value.of): SentRecord => ({
  key,
  value: Buffer.from(JSON.stringify(value)),
});

export const facts = { topic: 'facts' } as { readonly topic: string; readonly value?: Fact };

/** A topology of the specs: skips what fails, at once, unless told otherwise. */
export const specTopology = (
  define: (builder: TopologyBuilder) => void,
  options: Partial<TopologyOptions> = {},
): Topology =>
  topology(
    {
      name: 'spec',
      version: 1,
      onFailure: { retries: 0, backoffMs: 1, afterRetries: 'skip-record' },
      ...options,
    },
    define,
  );

export const driverOf = (
  define: (builder: TopologyBuilder) => void,
  options: Partial<ConstructorParameters<typeof TopologyTestDriver>[0]> & {
    readonly built?: Partial<TopologyOptions>;
  } = {},
): TopologyTestDriver => {
  const { built, ...rest } = options;
  return new TopologyTestDriver({ topology: specTopology(define, built), decoder: jsonDecoder, ...rest });
};
