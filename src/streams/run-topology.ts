import type { Logger } from 'pino';
import { concatMap, from, lastValueFrom, map, type OperatorFunction } from 'rxjs';
import type { DeadLetters, DecodedBatch, PoisonRecord, RecordDecoder, StateStore } from './ports.ts';
import type { BatchControl, BatchOutcome, RawBatch, RecordSource } from './record-source.ts';
import type { Effect, SourceNode, Topology } from './topology.ts';

export interface RunOptions {
  readonly topology: Topology;
  readonly source: RecordSource;
  readonly decoder: RecordDecoder;
  readonly store: StateStore;
  readonly deadLetters: DeadLetters;
  readonly settings: { readonly pollRecordsMax: number; readonly retryDelayMs: number };
  readonly log: Logger;
}

export interface RunningTopology {
  readonly failed: Promise<Error>;
  stop(): Promise<void>;
}

/** Feeds a topology from its source: decode, compute, commit, batch by batch, each partition in order. */
export const runTopology = async (options: RunOptions): Promise<RunningTopology> => {
  const partitions = new Map<string, PartitionProcessor>();
  await options.source.start((batch, control) => {
    const id = `${batch.topic}/${batch.partition}`;
    const processor = partitions.get(id) ?? createPartitionProcessor(options, batch);
    partitions.set(id, processor);
    return processor(batch, control);
  });
  return { failed: options.source.failed, stop: () => options.source.stop() };
};

type PartitionProcessor = (batch: RawBatch, control: BatchControl) => Promise<BatchOutcome>;

interface Computed {
  readonly batch: RawBatch;
  readonly effects: readonly Effect[];
  readonly poison: readonly PoisonRecord[];
}

const createPartitionProcessor = (
  options: RunOptions,
  { topic, partition }: RawBatch,
): PartitionProcessor => {
  const { topology, store, settings } = options;
  const log = options.log.child({ projection: topology.name, topic, partition });
  let soughtFor: number | undefined;
  let troubled = false;

  const apply = async (batch: RawBatch): Promise<BatchOutcome> => {
    const checkpoint = await store.loadCheckpoint(topology.name, topic, partition);
    const first = batch.records[0]?.offset ?? batch.nextOffset;
    if (checkpoint !== undefined && first > checkpoint && soughtFor !== checkpoint) {
      // Kafka's own offset ran ahead of what was applied: the checkpoint is the truth.
      soughtFor = checkpoint;
      return { kind: 'seek', offset: checkpoint };
    }
    if (checkpoint !== undefined && first > checkpoint) {
      log.error(
        { checkpoint, first },
        'Records after the checkpoint are gone from the topic; going on with what is left',
      );
    }
    const unseen = dropSeen(batch, checkpoint);
    if (unseen.nextOffset <= (checkpoint ?? -1)) return { kind: 'applied', nextOffset: checkpoint ?? 0 };
    return lastValueFrom(
      from(inSlices(unseen, settings.pollRecordsMax)).pipe(pipeline(options, log, checkpoint)),
    );
  };

  return async (batch, control) => {
    for (;;) {
      if (!control.isCurrent()) return { kind: 'abandoned' };
      try {
        const outcome = await apply(batch);
        if (troubled) log.warn('The projection goes on');
        troubled = false;
        return outcome;
      } catch (error) {
        // Bad records were set aside before this point: what is left is a server that does not answer, and waiting helps.
        if (!troubled) log.error({ err: error }, 'The projection waits; it keeps trying and loses nothing');
        troubled = true;
        await pause(settings.retryDelayMs);
        await control.heartbeat();
      }
    }
  };
};

/** One slice after the other: decode → compute → dead-letter what cannot be → commit the rest with the checkpoint. */
const pipeline = (
  options: RunOptions,
  log: Logger,
  checkpoint: number | undefined,
): OperatorFunction<RawBatch, BatchOutcome> => {
  const { topology, decoder, deadLetters, store } = options;
  let expectedOffset = checkpoint;
  return (slices) =>
    slices.pipe(
      concatMap(async (batch) => ({ batch, decoded: await decoder.decode(batch) })),
      map(({ batch, decoded }) => compute(topology, batch, decoded)),
      concatMap(async ({ batch, effects, poison }): Promise<BatchOutcome> => {
        if (poison.length > 0) {
          // The dead letter is safe before the checkpoint passes the record: a crash here repeats it, nothing is dropped.
          await deadLetters.send(batch, poison, topology.name);
          for (const { record, error } of poison) {
            log.warn({ offset: record.offset, err: error }, 'A record was sent to the dead letters');
          }
        }
        const committed = await store.commit({
          projection: topology.name,
          topic: batch.topic,
          partition: batch.partition,
          expectedOffset,
          nextOffset: batch.nextOffset,
          effects,
        });
        if (!committed) throw new Error('Another process moved the checkpoint of this partition');
        expectedOffset = batch.nextOffset;
        return { kind: 'applied', nextOffset: batch.nextOffset };
      }),
    );
};

const compute = (topology: Topology, batch: RawBatch, decoded: DecodedBatch): Computed => {
  const nodes = topology.sources.filter((source) => source.topic === batch.topic);
  const effects: Effect[] = [];
  const poison = [...decoded.poison];
  for (const record of decoded.records) {
    try {
      effects.push(...effectsOf(nodes, record));
    } catch (error) {
      const raw = batch.records.find((candidate) => candidate.offset === record.offset);
      if (!raw) throw error;
      poison.push({ record: raw, error: error as Error });
    }
  }
  return { batch, effects, poison };
};

const effectsOf = (
  nodes: readonly SourceNode[],
  record: DecodedBatch['records'][number],
): readonly Effect[] => nodes.flatMap((node) => node.process(record));

const dropSeen = (batch: RawBatch, checkpoint: number | undefined): RawBatch =>
  checkpoint === undefined
    ? batch
    : { ...batch, records: batch.records.filter((record) => record.offset >= checkpoint) };

const inSlices = (batch: RawBatch, recordsMax: number): readonly RawBatch[] => {
  if (batch.records.length <= recordsMax) return [batch];
  const slices: RawBatch[] = [];
  for (let start = 0; start < batch.records.length; start += recordsMax) {
    const records = batch.records.slice(start, start + recordsMax);
    const following = batch.records[start + recordsMax];
    slices.push({ ...batch, records, nextOffset: following?.offset ?? batch.nextOffset });
  }
  return slices;
};

const pause = (timeMs: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, timeMs));
