import type { Logger } from 'pino';
import { OperatorError } from '../../operator-error.ts';
import type { SqlRunner } from '../../postgres/database.ts';
import type { ProjectionId } from '../../streams/ports.ts';
import type { Place } from '../../streams/record.ts';
import { knownPartitions, type PartitionCounts } from './known-partitions.ts';

const command = 'npx millrace topics add-partitions';

/**
 * Says which partitions must not be read because what the projection keeps of their keys lies elsewhere. With a multiple of the
 * partitions that it knows, keys went to new partitions only: the old ones are read to their ends, the new ones wait. Otherwise
 * keys went from one old partition to another as well, and none may be read.
 */
export const createPartitionGuard = (
  db: SqlRunner,
  projection: ProjectionId,
  log: Logger,
): ((assigned: readonly Place[], counts: PartitionCounts) => Promise<readonly Place[]>) => {
  let toldFor = '';
  return async (assigned, counts) => {
    const known = await knownPartitions(db, projection, counts);
    const changed = changesOf(known, counts);
    if (changed.length === 0) return [];
    const fewer = changed.find(({ before, partitions }) => partitions < before);
    if (fewer) throw refusal(fewer, projection, 'Make the topic anew with as many partitions as it had');
    const mixed = changed.find(({ before, partitions }) => partitions % before !== 0);
    if (mixed)
      throw refusal(
        mixed,
        projection,
        `${command} moves what it keeps if everything was applied before, and says so otherwise`,
      );
    const text = JSON.stringify(changed);
    if (text !== toldFor)
      log.error(
        { topics: changed },
        `Partitions were added to a topic behind the projection's back: the new ones are not read, and what is in them is missing from the read model, until ${command} has moved what the projection keeps`,
      );
    toldFor = text;
    return assigned.filter(({ topic, partition }) => partition >= (known.get(topic) ?? 0));
  };
};

interface Change {
  readonly topic: string;
  readonly before: number;
  readonly partitions: number;
}

const changesOf = (known: PartitionCounts, counts: PartitionCounts): readonly Change[] =>
  [...counts].flatMap(([topic, partitions]) => {
    const before = known.get(topic) ?? partitions;
    return before === partitions ? [] : [{ topic, before, partitions }];
  });

const refusal = (
  { topic, before, partitions }: Change,
  { name }: ProjectionId,
  remedy: string,
): OperatorError =>
  new OperatorError(
    `${topic} has ${partitions} partitions, and what ${name} keeps is for ${before}: its keys are in other partitions now, so nothing is read. ${remedy}`,
    { remedy: `Or fill the read model anew: npx millrace rebuild ${name}` },
  );
