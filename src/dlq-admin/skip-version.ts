import { writeAudit } from '../operator-audit/write-audit.ts';
import type { Database, SqlRunner } from '../postgres/database.ts';
import { isOrderState, type SkippedVersion, skipVersion } from '../streams/in-order.ts';
import { storable } from './decision.ts';

/** Which version of which key will never come. */
export interface SkipRequest {
  readonly projection: string;
  readonly key: string;
  /** The one that is missing, unless another one is named. */
  readonly version?: number | undefined;
  /** The step that waits; needed only where several of the projection's do. */
  readonly step?: string | undefined;
}

export type SkipRefusal =
  /** There is no such projection, or none that hands records on in order, or it has no such step. */
  | 'no-such-step'
  /** Nothing is known of the key. */
  | 'unknown-key'
  /** Several steps know the key, and it is not said which one is meant. */
  | 'several-steps'
  /** The version is here, and waits for an earlier one. */
  | 'held'
  /** The version was handed on or skipped before. */
  | 'passed';

interface Told {
  readonly projection: string;
  readonly step: string;
  readonly key: string;
  /** The version that is skipped. */
  readonly version: number;
  /** What the key waits for: after it was skipped, or as things stand. */
  readonly next: number;
}

export type SkipReport =
  | (Told & { readonly outcome: 'skipped' | 'would-skip'; readonly releasedRecords: number })
  | (Partial<Told> & {
      readonly outcome: 'refused';
      readonly reason: SkipRefusal;
      /** Steps of the projection that hand records on in order. */
      readonly steps: readonly string[];
    });

/** Steps that hand records on in order, by projection. */
export type OrderSteps = ReadonlyMap<string, readonly string[]>;

export interface SkipOptions {
  readonly who: string;
  readonly dryRun: boolean;
}

interface StateRow {
  readonly version: number;
  readonly state: string;
  readonly topic: string;
  readonly partition: number;
  readonly value: unknown;
}

// The build stays the live one until this is done, as for a batch of the projection.
const liveStatement = {
  name: 'hold-live-build-of-key',
  text: `select version from projection_build where projection = $1 and status = 'live' for key share`,
};

const findStatement = {
  name: 'find-order-states-of-key',
  text: `
    select version, state, topic, partition, value from projection_state
    where projection = $1 and version = $2 and state = any ($3::text[]) and key = $4
    order by state`,
};

// As a batch would: whoever runs the task expects another number of commits, is fenced, and reads the state anew.
const fenceStatement = {
  name: 'fence-task-of-key',
  text: `
    insert into projection_task (projection, version, partition, commits, stream_time)
    values ($1, $2, $3, 1, '-infinity')
    on conflict (projection, version, partition) do update set commits = projection_task.commits + 1`,
};

const lockStatement = {
  name: 'lock-order-state-of-key',
  text: `
    select version, state, topic, partition, value from projection_state
    where projection = $1 and version = $2 and state = $3 and key = $4 and partition = $5
    for update`,
};

// The rest of the value is not touched: what is held in it goes back as it came.
const writeStatement = {
  name: 'skip-version-of-key',
  text: `
    update projection_state
    set value = jsonb_set(value, '{skipped}', $5::jsonb),
        due_at = case when $6::float8 is null then due_at else to_timestamp($6 / 1000) end
    where projection = $1 and version = $2 and state = $3 and key = $4`,
};

const noteStatement = {
  name: 'note-skipped-version',
  text: `
    insert into projection_skipped_version (projection, state, key, skipped_version, topic, partition, who)
    values ($1, $2, $3, $4, $5, $6, $7)
    on conflict do nothing`,
};

/**
 * Tells a projection that a version of a key will never come. Nothing is handed on here: the decision goes into the state of
 * the key, and whoever runs the projection finds it there.
 */
export const skipMissingVersion = async (
  { database, orderSteps }: { readonly database: Database; readonly orderSteps: OrderSteps },
  request: SkipRequest,
  options: SkipOptions,
): Promise<SkipReport> => {
  const known = orderSteps.get(request.projection) ?? [];
  const steps = request.step === undefined ? known : known.filter((step) => step === request.step);
  if (steps.length === 0) return { outcome: 'refused', reason: 'no-such-step', steps: known };
  return database
    .transaction(async (tx): Promise<SkipReport> => {
      const found = await findState(tx, request, steps);
      if (typeof found === 'string') return { outcome: 'refused', reason: found, steps: known };
      const locked = options.dryRun ? found : await fenceAndLock(tx, request, found);
      const skipped = skipVersion(locked.value, request.version);
      const { version, next } = skipped;
      const told = { projection: request.projection, step: locked.state, key: request.key, version, next };
      // Thrown, and not answered: the fence is undone with it.
      if (skipped.outcome !== 'skipped')
        throw new Refused({ ...told, outcome: 'refused', reason: skipped.outcome, steps: known });
      if (options.dryRun) return { ...told, outcome: 'would-skip', releasedRecords: skipped.released };
      await write(tx, request, locked, { skipped, who: options.who });
      return { ...told, outcome: 'skipped', releasedRecords: skipped.released };
    })
    .catch(reportOf);
};

class Refused extends Error {
  readonly report: SkipReport;
  constructor(report: SkipReport) {
    super('The version is not skipped');
    this.report = report;
  }
}

const reportOf = (error: unknown): SkipReport => {
  if (error instanceof Refused) return error.report;
  throw error;
};

const findState = async (
  tx: SqlRunner,
  { projection, key }: SkipRequest,
  steps: readonly string[],
): Promise<StateRow | 'unknown-key' | 'several-steps'> => {
  const [live] = await tx.execute<{ version: number }>(liveStatement, [projection]);
  if (!live) return 'unknown-key';
  const rows = await tx.execute<StateRow>(findStatement, [projection, live.version, steps, storable(key)]);
  const found = rows.filter(({ value }) => isOrderState(value));
  if (found.length > 1) return 'several-steps';
  return found[0] ?? 'unknown-key';
};

const fenceAndLock = async (
  tx: SqlRunner,
  { projection, key }: SkipRequest,
  { version, state, partition }: StateRow,
): Promise<StateRow> => {
  await tx.execute(fenceStatement, [projection, version, partition]);
  const [locked] = await tx.execute<StateRow>(lockStatement, [
    projection,
    version,
    state,
    storable(key),
    partition,
  ]);
  if (!locked) throw new Error(`What is known of ${key} has moved to another partition; try again`);
  return locked;
};

const write = async (
  tx: SqlRunner,
  { projection, key }: SkipRequest,
  { version, state, topic, partition }: StateRow,
  { skipped, who }: { skipped: SkippedVersion & { readonly outcome: 'skipped' }; who: string },
): Promise<void> => {
  const { skipped: versions } = skipped.state.value as { readonly skipped: readonly number[] };
  const at = [projection, version, state, storable(key)];
  await tx.execute(writeStatement, [...at, JSON.stringify(versions), skipped.state.dueAtMs ?? null]);
  await tx.execute(noteStatement, [projection, state, storable(key), skipped.version, topic, partition, who]);
  await writeAudit(tx, {
    who,
    action: 'dead-letters.skip-version',
    target: {
      projection,
      build: version,
      step: state,
      key,
      version: skipped.version,
      released: skipped.released,
    },
  });
};
