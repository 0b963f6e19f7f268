import { setTimeout as pause } from 'node:timers/promises';
import type { OffsetRange } from '../kafka/topic-reader.ts';
import { writeAudit } from '../operator-audit/write-audit.ts';
import type { Database, SqlRunner } from '../postgres/database.ts';
import { parkedName } from '../streams/parked-name.ts';
import { isReplayable } from './dead-letter.ts';
import { isOpen } from './decision.ts';
import { sequenceOf } from './parked-keys.ts';
import { type Desk, scanLetters } from './scan-letters.ts';

/** Which keys are meant: one key, in all places or in some. */
export interface KeyScope {
  readonly key: string;
  readonly topic?: string | undefined;
  readonly projection?: string | undefined;
}

interface ParkedRow {
  readonly projection: string;
  readonly version: number;
  readonly topic: string;
  readonly partition: number;
  readonly records: number;
  /** A replay whose first record failed again. */
  readonly brokenReplay: string | null;
  /** How far the projection has come there; null before its first record. */
  readonly nextOffset: number | null;
}

const findStatement = {
  name: 'find-parked-key-with-checkpoints',
  text: `
    select p.projection, p.version, p.topic, p.partition, p.records, p.broken_replay as "brokenReplay",
           c.next_offset as "nextOffset"
    from projection_parked_key p
    left join projection_checkpoint c
      on c.projection = p.projection and c.version = p.version and c.topic = p.topic and c.partition = p.partition
    where p.key = $1 and ($2::text is null or p.topic = $2) and ($3::text is null or p.projection = $3)
    order by p.projection, p.version, p.topic, p.partition`,
};

// Only as it was found: a projection that has parked or processed a record of the key in between has changed the count.
const releaseStatement = {
  name: 'release-parked-key',
  text: `
    delete from projection_parked_key
    where projection = $1 and version = $2 and topic = $3 and partition = $4 and key = $5 and records = $6
    returning records`,
};

export const findParkedKeys = (
  db: SqlRunner,
  { key, topic, projection }: KeyScope,
): Promise<readonly ParkedRow[]> =>
  db.execute<ParkedRow>(findStatement, [parkedName(key), topic ?? null, projection ?? null]);

/**
 * Lets keys go on that wait for nothing: their letters are decided about, what was replayed of them is through, and still
 * their count is not at zero. That happens when a record that came twice was parked twice and, replayed, was known the
 * second time; and when letters have expired. Answers how many there were.
 */
export const releaseKeys = async (
  { desk, database }: { desk: Desk; database: Database },
  scope: KeyScope,
  { who, dryRun }: { who: string; dryRun: boolean },
): Promise<number> => {
  const parked = await findParkedKeys(database, scope);
  if (parked.length === 0) return 0;
  // In this order: whatever is in the topic now is through by the second look, and its letters lie there by the third.
  const ends = await desk.reader.ranges([...new Set(parked.map(({ topic }) => topic))]);
  const through = await waitUntilThrough(database, scope, ends);
  const waiting = await openSequences(desk, scope.key);
  let released = 0;
  for (const row of parked) {
    if (!through.has(rowText(row)) || waiting.has(sequenceText(row, scope.key))) continue;
    if (dryRun || (await release(database, row, { key: scope.key, who }))) released++;
  }
  return released;
};

/** Where records keep coming, a projection is always a little behind: it has this long to get to where the topic ends now. */
const waitMs = 5000;
const lookEveryMs = 200;

const waitUntilThrough = async (
  db: SqlRunner,
  scope: KeyScope,
  ends: readonly OffsetRange[],
): Promise<ReadonlySet<string>> => {
  const isThrough = ({ topic, partition, nextOffset }: ParkedRow): boolean =>
    ends.some((at) => at.topic === topic && at.partition === partition && (nextOffset ?? -1) >= at.end);
  for (let waitedMs = 0; ; waitedMs += lookEveryMs) {
    const rows = await findParkedKeys(db, scope);
    if (rows.every(isThrough) || waitedMs >= waitMs) return new Set(rows.filter(isThrough).map(rowText));
    await pause(lookEveryMs);
  }
};

const rowText = ({ projection, version, topic, partition }: ParkedRow): string =>
  JSON.stringify([projection, version, topic, partition]);

const sequenceText = ({ projection, topic, partition }: ParkedRow, key: string): string =>
  sequenceOf({ projection, original: { topic, partition }, key });

const openSequences = async (desk: Desk, key: string): Promise<ReadonlySet<string>> => {
  const sequences = new Set<string>();
  for await (const some of scanLetters(desk, { key })) {
    for (const judged of some)
      if (isOpen(judged) && isReplayable(judged.letter)) sequences.add(sequenceOf(judged.letter));
  }
  return sequences;
};

const release = (
  database: Database,
  { projection, version, topic, partition, records }: ParkedRow,
  { key, who }: { key: string; who: string },
): Promise<boolean> =>
  database.transaction(async (tx) => {
    const values = [projection, version, topic, partition, parkedName(key), records];
    const gone = await tx.execute(releaseStatement, values);
    if (gone.length === 0) return false;
    const target = { projection, version, topic, partition, key: parkedName(key), records };
    await writeAudit(tx, { who, action: 'dead-letters.release', target });
    return true;
  });
