import type { DecodedBatch, LogBreak, LogIdentity, Place, RawBatch, RawRecord } from './record.ts';
import type { CounterRow, CounterTable, GlobalState, StateDefinition, TableDelta } from './tables.ts';

/** A projection by name and version of its definition: another version has checkpoints, handled keys and states of its own. */
export interface ProjectionId {
  readonly name: string;
  readonly version: number;
}

/** Where to go on in a place. */
export interface StartOffset extends Place {
  /** Undefined where the projection has never been: the source's own rule (earliest, latest) holds then. */
  readonly offset: number | undefined;
  /** The log that the offset was read in, where it is known. */
  readonly log?: LogIdentity | undefined;
}

/** How a place is read again. */
export interface SeekOptions {
  readonly afterMs?: number;
  /** The log that the offset belongs to, where it is known. */
  readonly log?: LogIdentity | undefined;
}

/**
 * Where records come from: partitions are given and taken away, each is read in order from the offset that was asked for.
 * Partitions of one number belong together: whoever has one topic's has that of every other topic. Where the log of a place is
 * not the one that an offset was read in, the source says so with a batch that begins the place anew.
 */
export interface RecordSource {
  /**
   * Joins the others that share the topics. After every (re)assignment `onAssigned` is asked where to start; what was read
   * and not taken before that is dropped. `onRevoked` comes as soon as it is known that the assignment will change.
   */
  start(handlers: SourceHandlers): Promise<void>;
  /**
   * The next batches of the assigned places, at most `recordsMax` records in all, at most one batch per place, each
   * following on the last one that was taken (or on the offset sought). Waits until there is something; answers with
   * nothing after `waitMs`. Reading goes on in the background, bounded.
   */
  take(limits: { readonly recordsMax: number; readonly waitMs: number }): Promise<readonly RawBatch[]>;
  /**
   * Drops what was read of the place and reads on from there, after a pause where one is asked for. Answers with the
   * number of the new reading: batches that were taken before have a lower one.
   */
  seek(place: Place, offset: number, options?: SeekOptions): number;
  /** Whether everything has been taken that the broker had of the place when it was asked last, after that time. */
  isCaughtUp(place: Place, askedAfterMs: number): boolean;
  /**
   * While it is paused nothing is read and nothing can be taken; the places stay with this process. A source without it
   * reads on until it is full.
   */
  setPaused?(isPaused: boolean): void;
  /** For lag tools only: the checkpoints are the truth. Never throws, never waited for. */
  reportApplied(offsets: readonly (Place & { readonly offset: number })[]): void;
  stop(): Promise<void>;
  /** Settles with the reason when the source has given up for good. */
  readonly failed: Promise<Error>;
}

export interface SourceHandlers {
  onAssigned(places: readonly (Place & { readonly reading: number })[]): Promise<readonly StartOffset[]>;
  onRevoked(): void;
  /** False where nothing may be left out: the place stays closed then, and the others are read on. */
  onGone(gone: GoneRecords): boolean;
}

/** Records that were to be read next are gone from a place, which begins later now. */
export interface GoneRecords extends Place {
  readonly reading: number;
  readonly firstOffset: number;
}

/**
 * The time of the oldest event that is written down and not in its topic yet; undefined where there is none. Throws when
 * nobody can tell.
 */
export type PendingSince = () => Promise<number | undefined>;

/** Turns bytes into values. Throws only when trying again may help; bad bytes are told as undecodable. */
export interface RecordDecoder {
  decode(batch: RawBatch): Promise<DecodedBatch>;
}

export type LetterKind =
  /** The bytes could not be read. */
  | 'undecodable'
  /** A step of the topology threw. */
  | 'failed'
  /** The database refused what came of it. */
  | 'refused'
  /** An earlier record of its key is here already, and order matters. */
  | 'parked';

export interface DeadLetter {
  readonly place: Place;
  readonly record: RawRecord;
  readonly kind: LetterKind;
  readonly error: Error;
}

/** Keeps what cannot be processed: original bytes, and the cause beside them. Resolves once it is safe. */
export interface DeadLetters {
  send(projection: ProjectionId, letters: readonly DeadLetter[]): Promise<void>;
}

/** What a projection has applied of a place. */
export interface Checkpoint {
  readonly nextOffset: number;
  /** The latest event time seen in the place: what counts by window go by. −Infinity before the first record. */
  readonly streamTimeMs: number;
  /** The log that `nextOffset` belongs to; missing where it is not known. */
  readonly log?: LogIdentity;
}

/** What a projection knows of the partitions of one number, which one process at a time has, over all topics. */
export interface TaskState {
  /** Grows by one with every commit: whoever expects another number is not the one who made the last. */
  readonly commits: number;
  /** The latest event time seen in any of them: what windows that are handed on go by. */
  readonly streamTimeMs: number;
}

/** A key whose first failed record and everything behind it went to the dead letters, until they are replayed in order. */
export interface ParkedKey {
  readonly key: string;
  /** Offset of the record that failed first. */
  readonly sinceOffset: number;
  /** Records of this key among the dead letters since then. */
  readonly records: number;
  readonly reason: string;
  /** A replay whose first record failed again: the rest of that replay goes behind it. */
  readonly brokenReplay: string | null;
}

export interface PlaceState {
  readonly checkpoint: Checkpoint | undefined;
  /** Undefined where nothing was committed for the partition's number. */
  readonly task: TaskState | undefined;
  readonly parked: readonly ParkedKey[];
}

/** Ids that were handled, by place and by the stretch of event time they fall into. */
export interface HandledIds extends Place {
  readonly bucketStartMs: number;
  readonly ids: readonly string[];
}

/** A business fact that counts once, however many events tell of it. */
export interface Fact {
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly action: string;
}

/** What is added only if the fact is new. */
export interface FactEffect {
  readonly fact: Fact;
  readonly adds: readonly { readonly table: CounterTable; readonly row: CounterRow }[];
}

/** When a state wants to be looked at by itself. Only for states without a table of their own. */
export interface DueTimes {
  /** By whichever clock comes there first, as windows do when they close. */
  readonly dueAtMs?: number;
  /** By the time of the stream alone. */
  readonly streamDueAtMs?: number;
  /** By the wall clock alone. */
  readonly clockDueAtMs?: number;
}

export interface StateChange extends DueTimes {
  /** States are found by key alone, and when they are due by their partition's number. */
  readonly place: Place;
  readonly state: StateDefinition;
  readonly key: string;
  /** A JSON value; undefined takes the state away. */
  readonly value: unknown;
}

export interface DueState {
  readonly state: string;
  readonly key: string;
  readonly value: unknown;
  /** The earliest of its times that have come. */
  readonly dueAtMs: number;
}

export interface DueRequest {
  readonly partition: number;
  /** Of what goes by either clock. */
  readonly untilMs: number;
  /** Of what goes by the time of the stream alone; nothing of that is due where it is missing. */
  readonly streamTimeMs?: number;
  /** Of what goes by the wall clock alone; nothing of that is due where it is missing. */
  readonly wallClockMs?: number;
  readonly statesMax: number;
  /** Of these states, or of all others: a step that was renamed or taken away leaves some behind. */
  readonly states: readonly string[];
  readonly others?: boolean;
}

export interface StateRequest {
  readonly state: StateDefinition;
  readonly keys: readonly string[];
}

/** What a copy of a state asks for to be as the state is now. */
export interface ChangesRequest {
  readonly state: GlobalState;
  /** What an earlier answer said; undefined asks for all there is. */
  readonly since: string | undefined;
  readonly rowsMax: number;
}

export interface ChangedRows {
  /** In any order; a value of undefined is gone. Changes of shortly before may be told again, as they are now. */
  readonly rows: readonly { readonly key: string; readonly value: unknown }[];
  /** To be asked with the next time. */
  readonly upTo: string;
}

/** An event that a topology derives; it goes through the outbox, in the same transaction as everything else. */
export interface DerivedEvent {
  /** Made from the source event's id and the step, so that deriving it again gives the same. */
  readonly id: string;
  readonly destination: string;
  readonly key: string;
  readonly value: unknown;
  readonly timeMs: number;
  /** The id of the event it comes from. */
  readonly causationId: string;
}

/** A checkpoint's move. */
export interface Move extends Place {
  /** Where the checkpoint must stand for this batch to be the next one; undefined when there is none yet. */
  readonly expectedOffset: number | undefined;
  /** May equal `expectedOffset`: it is checked all the same. */
  readonly nextOffset: number;
  readonly streamTimeMs: number;
  /** The log that `nextOffset` belongs to; undefined where it is not known. */
  readonly log?: LogIdentity | undefined;
  /** Why the place begins anew at `nextOffset`, where it does; kept for operators. */
  readonly logBreak?: LogBreak | undefined;
  /** Records that came after their window had closed, to be added to those before. */
  readonly lateRecords: number;
  /** Records whose time lay too far in the future to be believed, to be added to those before. */
  readonly earlyRecords: number;
}

/** A commit for a task. */
export interface TaskMove {
  readonly partition: number;
  /** How many there must have been before; undefined when there was none. */
  readonly expectedCommits: number | undefined;
  readonly streamTimeMs: number;
}

export interface ParkedChange extends Place {
  readonly key: string;
  /** Records behind the key before this batch; undefined when it was not parked. Checked, as an operator may release keys. */
  readonly expectedRecords: number | undefined;
  /** Undefined releases the key. */
  readonly parked: Omit<ParkedKey, 'key'> | undefined;
}

/** Everything a batch does, over one or more places; committed whole or not at all. */
export interface BatchCommit {
  readonly projection: ProjectionId;
  readonly tasks: readonly TaskMove[];
  readonly moves: readonly Move[];
  readonly handled: readonly HandledIds[];
  /** Handled by earlier batches, and not any more: their records have become dead letters, and may be replayed. */
  readonly reopened: readonly HandledIds[];
  /** Events that are handled, now or earlier, and in no window of a step: who waits for them is told so. */
  readonly missed: readonly HandledIds[];
  readonly facts: readonly FactEffect[];
  readonly deltas: readonly TableDelta[];
  readonly states: readonly StateChange[];
  readonly parked: readonly ParkedChange[];
  readonly derived: readonly DerivedEvent[];
}

export type CommitOutcome =
  /** `knownFacts`: how many facts had been told before and added nothing. */
  | { readonly kind: 'committed'; readonly knownFacts: number }
  /** A task, a checkpoint or a parked key is not where the batch began: somebody else has been there. Nothing was changed. */
  | { readonly kind: 'fenced' };

/** The database refused the data itself (a constraint, a number too large): waiting does not help, another record may. */
export class RefusedData extends Error {
  override readonly name = 'RefusedData';
}

/** What the projection keeps under its version has made way for another filling of it: whoever runs it is about to go on there. */
export class BuildReplaced extends Error {
  override readonly name = 'BuildReplaced';
}

/** An operator holds the projection still: nothing of it is committed until they let it go on. */
export class ProjectionPaused extends Error {
  override readonly name = 'ProjectionPaused';
}

/**
 * Keeps tables, states, handled ids and checkpoints. `commit` does all of a batch in one transaction and throws
 * `RefusedData` for data that cannot be stored, `BuildReplaced` and `ProjectionPaused` where nothing may be committed now;
 * whatever else is thrown, here or elsewhere, is trouble that passes.
 */
export interface StateStore {
  /** In the order of the places. */
  loadPlaces(projection: ProjectionId, places: readonly Place[]): Promise<readonly PlaceState[]>;
  /** Ids handled in these stretches of time, in the order of the requests. */
  loadHandled(
    projection: ProjectionId,
    requests: readonly Omit<HandledIds, 'ids'>[],
  ): Promise<readonly (readonly string[])[]>;
  /** Values by key, in the order of the requests; a key without a state is not in the map. */
  loadStates(
    projection: ProjectionId,
    requests: readonly StateRequest[],
  ): Promise<readonly ReadonlyMap<string, unknown>[]>;
  /** The values of a state that processes have copies of, all or those that changed; of all partitions. At most so many. */
  loadChanged(projection: ProjectionId, request: ChangesRequest): Promise<ChangedRows>;
  /** States of the partition's number that were due by then, over all topics, the earliest first, each once. */
  findDue(projection: ProjectionId, request: DueRequest): Promise<readonly DueState[]>;
  commit(batch: BatchCommit): Promise<CommitOutcome>;
}

/** What happens inside, for metrics; told once per batch, never per record. What it throws is logged and ignored. */
export interface StreamsObserver {
  applied(told: {
    readonly projection: ProjectionId;
    readonly places: readonly (Place & { readonly records: number })[];
    readonly duplicates: number;
    readonly knownFacts: number;
    readonly late: number;
    readonly early: number;
    /** From the time of the newest event to now; undefined when no event of the batch was new and could be decoded. */
    readonly delayMs: number | undefined;
    readonly commitMs: number;
  }): void;
  deadLettered(projection: ProjectionId, letters: readonly DeadLetter[]): void;
  fenced(projection: ProjectionId): void;
  waiting(projection: ProjectionId, isWaiting: boolean): void;
  /** A place is read from there on, because what was read before is not in its log any more. */
  begunAnew(projection: ProjectionId, place: BegunAnew): void;
  /** How many of its places the process does not read, because records after their checkpoints are gone. */
  stopped(projection: ProjectionId, places: number): void;
  /** How it is when it starts, and every change. */
  paused(projection: ProjectionId, isPaused: boolean): void;
}

export interface BegunAnew extends Place {
  readonly logBreak: LogBreak;
  readonly offsetBefore: number;
  readonly offset: number;
  /** The latest event time seen in the place before. */
  readonly streamTimeMs: number;
}
