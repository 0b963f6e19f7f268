/** A record after decoding, as the steps of a topology see it. */
export interface StreamRecord<V> {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: string | null;
  readonly value: V;
}

/** A table that a topology counts into: one row per key, one column per count. */
export interface CounterTable<Column extends string = string> {
  readonly table: string;
  readonly keyColumn: string;
  readonly columns: readonly Column[];
}

/** What must take effect once, however often its record arrives. */
export interface HandledKey {
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly action: string;
}

/** What a record does to a table. Without a handled key it is harmless to repeat. */
export interface Effect {
  readonly table: CounterTable;
  readonly key: string;
  readonly column: string | undefined;
  readonly by: number;
  readonly handled: HandledKey | undefined;
}

export interface SourceNode {
  readonly topic: string;
  readonly process: (record: StreamRecord<unknown>) => readonly Effect[];
}

/** What to compute, as data; running it is the runtime's job. */
export interface Topology {
  readonly name: string;
  readonly sources: readonly SourceNode[];
}

/** Says which topic a stream comes from and what its records are. */
export interface StreamOf<V> {
  readonly topic: string;
  /** Never set: it only carries the type. */
  readonly value?: V;
}

export interface KStream<V> {
  filter<Narrowed extends V>(keep: (value: V) => value is Narrowed): KStream<Narrowed>;
  filter(keep: (value: V) => boolean): KStream<V>;
  groupBy(key: (value: V) => string): KGroupedStream<V>;
}

export interface KGroupedStream<V> {
  /** Counts each handled key once, into a column of the group's row. */
  count<Column extends string>(
    into: CounterTable<Column>,
    column: Column,
    options: { once: (value: V) => HandledKey },
  ): void;
  /** Makes sure that the group has its row, with every count at zero to begin with. */
  toRow(into: CounterTable): void;
}

export interface TopologyBuilder {
  stream<V>(source: StreamOf<V>): KStream<V>;
}

type Process<V> = (value: V) => readonly Effect[];

export const topology = (name: string, define: (builder: TopologyBuilder) => void): Topology => {
  const sources: SourceNode[] = [];
  define({
    stream: <V>({ topic }: StreamOf<V>) =>
      streamInto<V>((process) => {
        sources.push({ topic, process: (record) => process(record.value as V) });
      }),
  });
  return { name, sources };
};

/** Each step wraps the one after it, so that a record runs through plain function calls. */
const streamInto = <V>(attach: (process: Process<V>) => void): KStream<V> => ({
  filter: (keep: (value: V) => boolean) =>
    streamInto<V>((process) => attach((value) => (keep(value) ? process(value) : []))),
  groupBy: (key) => ({
    count: (table, column, { once }) =>
      attach((value) => [{ table, key: key(value), column, by: 1, handled: once(value) }]),
    toRow: (table) =>
      attach((value) => [{ table, key: key(value), column: undefined, by: 0, handled: undefined }]),
  }),
});
