import { appendEvents, type KeyedAnswer, VersionConflict } from '../journal/append-events.ts';
import { consistencyTokenOf } from '../journal/consistency-token.ts';
import { findExistingStreams } from '../journal/find-existing-streams.ts';
import { findAnswers } from '../journal/idempotency-keys.ts';
import { loadStreams } from '../journal/load-streams.ts';
import type { Snapshot } from '../journal/save-snapshots.ts';
import { type SealedEvent, type StreamId, sealEvent } from '../journal/seal-event.ts';
import type { WriterSchemas } from '../journal/writer-schemas.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { aggregates } from './aggregates.ts';
import type { CommandOutcome, CommandRequest } from './command.ts';
import { type CommandPlan, type NeededStream, rejected, type StreamChange } from './command-plan.ts';
import { streamKey, WorkingSet } from './working-set.ts';

/** A command on its way: what it wants, who asked, and its key. */
export interface Submission {
  readonly plan: CommandPlan<unknown>;
  readonly request: CommandRequest;
  readonly keyHash: Buffer;
}

/** How one command of a batch ended; a failure is a bug in that command alone. */
export type SubmissionResult =
  | CommandOutcome<unknown>
  | { readonly outcome: 'failed'; readonly error: Error };

export interface BatchPorts {
  readonly schemas: WriterSchemas;
  readonly source: string;
  readonly clock: () => Date;
  readonly newEventId: () => string;
  readonly idempotencyRetentionMs: number;
  /** Streams known to have begun: they never end, so knowing it once is enough. */
  readonly begunStreams: { has(key: string): boolean; add(key: string): void };
}

export interface BatchResult {
  readonly results: readonly SubmissionResult[];
  readonly appended: number;
  /** To be saved when the answers are out; nobody waits for them. */
  readonly snapshots: readonly Snapshot[];
}

/**
 * Decides a batch of commands one after the other in memory and writes what they decided in one transaction: two or
 * three round trips, however many there are. Throws VersionConflict when another process was faster with any of it;
 * nothing is written then, and the batch can be tried again.
 */
export const executeBatch = async (
  db: SqlRunner,
  ports: BatchPorts,
  submissions: readonly Submission[],
): Promise<BatchResult> => {
  const answered = await findAnswers(
    db,
    submissions.map(({ keyHash }) => keyHash),
    ports.idempotencyRetentionMs,
  );
  const set = await loadWorkingSet(db, ports, submissions);
  const batch = new DecidedBatch(ports, set);
  const results = submissions.map((submission): SubmissionResult => {
    const stored = answered.get(submission.keyHash.toString('hex'));
    if (stored) {
      return stored.fingerprint.equals(submission.request.idempotency.fingerprint)
        ? {
            outcome: 'accepted',
            answer: stored.answer,
            replayed: true,
            consistencyToken: stored.consistencyToken ?? nothingToWaitFor,
          }
        : rejected({ reason: 'idempotency-key-reused' });
    }
    try {
      return batch.decide(submission);
    } catch (error) {
      return { outcome: 'failed', error: error as Error };
    }
  });
  try {
    await appendEvents(db, inLockOrder(batch.events), batch.answers);
  } catch (error) {
    throw error instanceof VersionConflict ? new BatchConflict(set.streamKeys(), error) : error;
  }
  return { results, appended: batch.events.length, snapshots: snapshotsOf(set) };
};

/** For an answer that was given before tokens were. */
const nothingToWaitFor = consistencyTokenOf([]);

/** Another process was faster with one of these streams, or with one of the keys. */
export class BatchConflict extends VersionConflict {
  readonly streamKeys: readonly string[];

  constructor(streamKeys: readonly string[], cause: Error) {
    super(cause.message, { cause });
    this.streamKeys = streamKeys;
  }
}

/** Two batches that meet in two streams must not wait for each other: everybody inserts in the same order. */
const inLockOrder = (events: readonly SealedEvent[]): readonly SealedEvent[] =>
  events
    .map((event) => ({ event, key: streamKey(event.stream) }))
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : a.event.version - b.event.version))
    .map(({ event }) => event);

/** What the commands of a batch have decided so far. A command that fails leaves nothing in here. */
class DecidedBatch {
  readonly events: SealedEvent[] = [];
  readonly answers: KeyedAnswer[] = [];
  readonly #ports: BatchPorts;
  readonly #set: WorkingSet;

  constructor(ports: BatchPorts, set: WorkingSet) {
    this.#ports = ports;
    this.#set = set;
  }

  decide({ plan, request, keyHash }: Submission): CommandOutcome<unknown> {
    const { view } = this.#set;
    const { target } = plan;
    if (target && request.expectedVersion !== undefined) {
      const currentVersion = view.version(target.aggregateType, target.aggregateId);
      if (currentVersion !== request.expectedVersion)
        return rejected({ reason: 'version-differs', currentVersion });
    }
    const decision = plan.decide(view);
    if (decision.outcome === 'rejected') return decision;

    // Sealed before anything is applied: an event that does not fit its schema must not leave half a command behind.
    const sealed = decision.changes.flatMap((change) => this.#seal(change, request));
    const answer = this.#set.apply(decision.changes, () => decision.answer(view));
    const consistencyToken = consistencyTokenOf(sealed);
    this.events.push(...sealed);
    this.answers.push({ keyHash, fingerprint: request.idempotency.fingerprint, answer, consistencyToken });
    return { outcome: 'accepted', answer, replayed: false, consistencyToken };
  }

  #seal({ stream, events, firstEventId }: StreamChange, { context }: CommandRequest): readonly SealedEvent[] {
    const { clock, newEventId, source } = this.#ports;
    const version = this.#set.view.version(stream.aggregateType, stream.aggregateId);
    return events.map((event, index) =>
      sealEvent({
        eventId: (index === 0 ? firstEventId : undefined) ?? newEventId(),
        stream,
        version: version + index + 1,
        event,
        occurredAt: clock(),
        source,
        context,
      }),
    );
  }
}

const loadWorkingSet = async (
  db: SqlRunner,
  ports: BatchPorts,
  submissions: readonly Submission[],
): Promise<WorkingSet> => {
  const set = new WorkingSet(await existingStreams(db, ports, submissions));
  await load(db, ports, set, distinct(submissions.flatMap(({ plan }) => plan.streams)));
  const more = distinct(submissions.flatMap(({ plan }) => plan.moreStreams?.(set.view) ?? []));
  await load(
    db,
    ports,
    set,
    more.filter((stream) => !set.has(stream)),
  );
  return set;
};

const distinct = <S extends StreamId>(streams: readonly S[]): readonly S[] => [
  ...new Map(streams.map((stream) => [streamKey(stream), stream])).values(),
];

const load = async (
  db: SqlRunner,
  ports: BatchPorts,
  set: WorkingSet,
  streams: readonly NeededStream[],
): Promise<void> => {
  const stored = streams.filter((stream) => !stream.isNew);
  const loaded = await loadStreams(
    db,
    ports.schemas,
    stored.map((stream) => ({ ...stream, foldVersion: aggregates[stream.aggregateType].foldVersion })),
  );
  for (const stream of streams) if (stream.isNew) set.begin(stream);
  for (const [index, stream] of stored.entries()) {
    const found = loaded[index];
    if (found) set.add(stream, found);
  }
};

const existingStreams = async (
  db: SqlRunner,
  { begunStreams }: BatchPorts,
  submissions: readonly Submission[],
): Promise<ReadonlySet<string>> => {
  const asked = submissions.flatMap(({ plan }) => plan.mustExist ?? []);
  const unknown = distinct(asked.filter((stream) => !begunStreams.has(streamKey(stream))));
  for (const stream of await findExistingStreams(db, unknown)) begunStreams.add(streamKey(stream));
  return new Set(asked.map(streamKey).filter((key) => begunStreams.has(key)));
};

const snapshotsOf = (set: WorkingSet): readonly Snapshot[] =>
  set.dueForSnapshot().map(({ stream, version, state }) => ({
    stream,
    version,
    state,
    foldVersion: aggregates[stream.aggregateType].foldVersion,
  }));
