import type { SqlRunner } from '../postgres/database.ts';
import type { PlaceOffset } from './topic-source.ts';

export type RebuildSource = 'journal' | 'kafka';

/** A filling of a projection's tables that is not live (yet). */
export interface Build {
  readonly projection: string;
  readonly version: number;
  readonly definitionVersion: number;
  readonly status: 'building' | 'live' | 'retired' | 'returning' | 'dropping';
  readonly source: RebuildSource | null;
  readonly phase: 'replay' | 'catch-up' | null;
  readonly program: string | null;
  readonly fromSnapshot: string | null;
  readonly toSnapshot: string | null;
  readonly kafkaStart: readonly PlaceOffset[] | null;
  /** Records that could not be applied. */
  readonly setAside: number;
  /** Nothing was ever in it. */
  readonly awaitsFill: boolean;
}

/** Where the tables of a build are while it is not live. */
export const schemaOf = ({ projection, version }: Pick<Build, 'projection' | 'version'>): string =>
  `build_${projection.replaceAll('-', '_')}_${version}`;

const columns = `projection, version, definition_version as "definitionVersion", status, source, phase, program,
  from_snapshot::text as "fromSnapshot", to_snapshot::text as "toSnapshot", kafka_start as "kafkaStart",
  set_aside as "setAside", awaits_fill as "awaitsFill"`;

const listStatement = {
  name: 'list-builds',
  text: `select ${columns} from projection_build where projection = $1 order by version desc`,
};

/** Every build of a projection, the newest first. */
export const listBuilds = (db: SqlRunner, projection: string): Promise<readonly Build[]> =>
  db.execute<Build>(listStatement, [projection]);

export interface NewBuild {
  readonly projection: string;
  readonly definitionVersion: number;
  readonly source: RebuildSource;
  readonly program: string;
  readonly kafkaStart: readonly PlaceOffset[];
}

const insertStatement = {
  name: 'insert-build',
  text: `
    insert into projection_build
      (projection, version, definition_version, status, source, phase, program, from_snapshot, to_snapshot, kafka_start)
    select $1, coalesce(max(version), 0) + 1, $2, 'building', $3, case $3 when 'journal' then 'replay' else 'catch-up' end,
           $4, '1:1:', pg_current_snapshot(), $5::jsonb
    from projection_build where projection = $1
    returning ${columns}`,
};

/** Begins a build. The journal's snapshot is that of this moment: what Kafka had before is in it. */
export const insertBuild = async (tx: SqlRunner, build: NewBuild): Promise<Build> => {
  const { projection, definitionVersion, source, program, kafkaStart } = build;
  const [row] = await tx.execute<Build>(insertStatement, [
    projection,
    definitionVersion,
    source,
    program,
    JSON.stringify(kafkaStart),
  ]);
  if (!row) throw new Error(`The build of ${projection} was not stored`);
  return row;
};

const positionStatement = {
  name: 'set-build-positions',
  text: `
    insert into projection_checkpoint (projection, version, topic, partition, next_offset, topic_id)
    select $1, $2, topic, partition, next_offset, topic_id
    from unnest($3::text[], $4::integer[], $5::bigint[], $6::uuid[]) as place(topic, partition, next_offset, topic_id)
    on conflict (projection, version, topic, partition) do update
      set next_offset = excluded.next_offset, topic_id = excluded.topic_id, leader_epoch = null`,
};

/** Puts a build's checkpoints somewhere else: at the start of a stretch of the journal, or of the topics. */
export const setPositions = async (
  tx: SqlRunner,
  { projection, version }: Pick<Build, 'projection' | 'version'>,
  places: readonly PlaceOffset[],
): Promise<void> => {
  await tx.execute(positionStatement, [
    projection,
    version,
    places.map(({ topic }) => topic),
    places.map(({ partition }) => partition),
    places.map(({ offset }) => offset),
    places.map(({ topicId }) => topicId ?? null),
  ]);
};

const checkpointsStatement = {
  name: 'list-build-checkpoints',
  text: `
    select topic, partition, next_offset as "offset", topic_id as "topicId" from projection_checkpoint
    where projection = $1 and version = $2`,
};

export const listPositions = (
  db: SqlRunner,
  { projection, version }: Pick<Build, 'projection' | 'version'>,
): Promise<readonly PlaceOffset[]> => db.execute<PlaceOffset>(checkpointsStatement, [projection, version]);

const deltaStatement = {
  name: 'set-build-delta',
  text: `
    update projection_build set from_snapshot = $3::pg_snapshot, to_snapshot = $4::pg_snapshot
    where projection = $1 and version = $2`,
};

export const setDelta = async (
  tx: SqlRunner,
  { projection, version }: Build,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<void> => {
  await tx.execute(deltaStatement, [projection, version, from, to]);
};

const phaseStatement = {
  name: 'set-build-phase',
  text: `update projection_build set phase = 'catch-up' where projection = $1 and version = $2`,
};

export const beginCatchUp = async (tx: SqlRunner, { projection, version }: Build): Promise<void> => {
  await tx.execute(phaseStatement, [projection, version]);
};

const statusStatement = {
  name: 'set-build-status',
  text: `
    update projection_build
    set status = $3, live_at = case $3 when 'live' then clock_timestamp() else live_at end,
        retired_at = case $3 when 'retired' then clock_timestamp() when 'live' then null else retired_at end
    where projection = $1 and version = $2 and status = any ($4::text[])
    returning true`,
};

/** From where a build can come to a status; it never leaves being live but by making way for another. */
const comesFrom: Readonly<Record<Build['status'], readonly Build['status'][]>> = {
  building: [],
  live: ['building', 'returning'],
  retired: ['live', 'returning'],
  returning: ['retired', 'returning'],
  dropping: ['building', 'retired', 'dropping'],
};

/** False when the build is not what it was taken for: somebody else was faster. */
export const setStatus = async (
  tx: SqlRunner,
  { projection, version }: Pick<Build, 'projection' | 'version'>,
  status: Build['status'],
): Promise<boolean> => {
  const changed = await tx.execute(statusStatement, [projection, version, status, comesFrom[status]]);
  return changed.length > 0;
};

const setAsideStatement = {
  name: 'count-set-aside',
  text: 'update projection_build set set_aside = set_aside + $3 where projection = $1 and version = $2',
};

export const addSetAside = async (
  db: SqlRunner,
  { projection, version }: Build,
  records: number,
): Promise<void> => {
  await db.execute(setAsideStatement, [projection, version, records]);
};

const formerStatement = {
  name: 'find-former-build',
  text: `
    select ${columns} from projection_build
    where projection = $1 and status in ('retired', 'returning')
    order by status = 'returning' desc, retired_at desc limit 1`,
};

/** The build that was live before, or that is on its way back. */
export const findFormerBuild = async (db: SqlRunner, projection: string): Promise<Build | undefined> => {
  const [row] = await db.execute<Build>(formerStatement, [projection]);
  return row;
};
