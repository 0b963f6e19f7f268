import type { Logger } from 'pino';
import { commitOf } from './commit-of.ts';
import {
  type Compute,
  type ComputedBatch,
  type Condemned,
  createCompute,
  type PlaceInput,
} from './compute-batch.ts';
import { DueLookout } from './due-lookout.ts';
import { hasBeenOvertaken } from './has-been-overtaken.ts';
import { LaneMemory } from './lane-memory.ts';
import { LanePlaces } from './lane-places.ts';
import { TroubleLoading } from './load-for-batch.ts';
import type { PauseGate } from './pause-gate.ts';
import type { OwnedPlace } from './place-tail.ts';
import {
  BuildReplaced,
  type DeadLetters,
  type GoneRecords,
  type PendingSince,
  type ProjectionId,
  ProjectionPaused,
  type RecordSource,
  RefusedData,
  type StartOffset,
  type StateStore,
  type StreamsObserver,
} from './ports.ts';
import type { DecodedBatch, Place } from './record.ts';
import { Refusal, tickOf } from './refusal.ts';
import { shieldedObserver } from './shielded-observer.ts';
import { tellOfCommit } from './tell-of-commit.ts';
import { globalStatesOf, nodesOfTopology, type Topology } from './topology.ts';
import { WallClockHorizon } from './wall-clock-horizon.ts';

export interface LaneSettings {
  /** Pause before a server that did not answer is asked again. */
  readonly retryDelayMs: number;
  readonly handledIdsMax: number;
  readonly statesMax: number;
}

export interface LaneOptions {
  readonly topology: Topology;
  readonly store: StateStore;
  readonly deadLetters: DeadLetters;
  readonly observer: StreamsObserver;
  readonly settings: LaneSettings;
  readonly clock: () => number;
  /** What is still on its way to the topics; nothing ever is, where this is missing. */
  readonly pendingSince?: PendingSince;
  readonly pause: (timeMs: number) => Promise<void>;
  /** Where an operator holds the projection still. */
  readonly gate: PauseGate;
  /** Reads a place from there on, after a pause if there is one; answers with the number of that reading. */
  readonly seek: RecordSource['seek'];
  readonly stopping: AbortSignal;
  readonly log: Logger;
}

/** Batches on their way: computed when they were taken, and again when what they were computed on has changed since. */
export interface Round {
  readonly inputs: readonly PlaceInput[];
  /** Undefined, or of an earlier generation: it has to be computed before it is committed. */
  computed: ComputedBatch | undefined;
  generation: number;
}

/** Where nothing is left to read now. */
export interface QuietPlaces {
  /** Each with the reading that has come to its end. */
  readonly places: ReadonlyMap<OwnedPlace, number>;
  /** Nothing older than that was on its way to the topics before they were read to their end. */
  readonly untilMs: number;
}

export interface AppliedOffset extends Place {
  readonly offset: number;
}

/**
 * One topology in one process: knows its places and how far they are, computes batches and commits them. Batches are
 * computed one after the other and settled one after the other; the next may be computed while the last is settled.
 */
export class Lane {
  readonly #options: LaneOptions;
  readonly #projection: ProjectionId;
  readonly #compute: Compute;
  readonly #due: DueLookout;
  readonly #places: LanePlaces;
  readonly #refusal: Refusal;
  readonly #horizon: WallClockHorizon;
  #memory: LaneMemory;
  /** Grows when what is at hand turns out not to be what is stored: what was computed before is computed again. */
  #generation = 0;
  /** Rounds that were given out and are not settled, the oldest first. */
  readonly #outstanding: Round[] = [];
  #moved = withResolvers();
  #troubled = false;
  /** A commit failed: it is not known where the places stand. */
  #isInDoubt = false;

  constructor(options: LaneOptions) {
    const { topology, store, settings, log, stopping } = options;
    this.#options = { ...options, observer: shieldedObserver(options.observer, log) };
    this.#projection = { name: topology.name, version: topology.version };
    this.#memory = this.#newMemory();
    this.#places = new LanePlaces({
      seek: options.seek,
      retryDelayMs: settings.retryDelayMs,
      onStopped: (places) => this.#options.observer.stopped(this.#projection, places),
      log,
    });
    const { pendingSince, clock } = options;
    this.#horizon = new WallClockHorizon({ pendingSince, clock, log });
    const nodes = nodesOfTopology(topology);
    this.#due = new DueLookout({ nodes, projection: this.#projection, store, log });
    this.#compute = createCompute({
      topology,
      projection: this.#projection,
      store,
      clock,
      stopping,
      pause: options.pause,
      onWindowFailure: (error, window) =>
        log.error(
          { err: error, ...window },
          'What a window, a timer or an expiry brings could not be handed on; it is kept and tried again',
        ),
    });
    this.#refusal = new Refusal({
      closesWindows: this.#due.hasSteps,
      holdsRecords: this.#due.holdsRecords,
      settle: (inputs, condemned) => this.#settleInputs(inputs, undefined, condemned),
      compute: (inputs) => this.#computeNow(inputs),
      commit: (computed) => this.#commit(computed),
      reload: () => this.#reload(),
      isCurrent: (input) => this.#places.isCurrent(input),
      hasDue: (task, wallClockMs) =>
        this.#due.isThere(task, wallClockMs, Math.max(wallClockMs, task.tail.streamTimeMs)),
    });
  }

  get projection(): ProjectionId {
    return this.#projection;
  }

  /** The places this process has from now on. Whatever it knew is forgotten: somebody else may have been there. */
  async assign(places: readonly (Place & { readonly reading: number })[]): Promise<readonly StartOffset[]> {
    const stored = await this.#options.store.loadPlaces(this.#projection, places);
    this.#forget();
    this.#isInDoubt = false;
    return this.#places.assign(places, stored);
  }

  revoke(): void {
    this.#forget();
    this.#places.assign([], []);
  }

  /** What to do about records that are gone: see {@link SourceHandlers.onGone}. */
  gone(records: GoneRecords): boolean {
    return this.#places.gone(records);
  }

  /** Works out what batches do; undefined when there is nothing in them for this lane. */
  async compute(batches: readonly DecodedBatch[]): Promise<Round | undefined> {
    await this.#untilOthersAreComputed();
    const inputs = batches.flatMap((batch) => this.#places.accept(batch) ?? []);
    return inputs.length === 0 ? undefined : this.#round(inputs);
  }

  /** Places where nothing is left to read now; to be asked before anything else is read. */
  quietPlaces(isCaughtUp: RecordSource['isCaughtUp']): QuietPlaces {
    const { untilMs, knownSinceMs } = this.#horizon.current;
    const quiet = this.#places.all.filter(({ place }) => isCaughtUp(place, knownSinceMs));
    return { places: new Map(quiet.map((owned) => [owned, owned.reading])), untilMs };
  }

  /** Gives windows the chance to close by the wall clock, in tasks where nothing was left to read or on its way there. */
  async tick(quiet: QuietPlaces): Promise<Round | undefined> {
    if (this.#options.gate.isPaused) return undefined;
    await this.#due.tellLeftBehind([...this.#places.tasks.keys()]);
    if (!this.#due.hasSteps) return undefined;
    const nowMs = this.#options.clock();
    const wallClockMs = this.#due.goesByTime ? Math.min(nowMs, quiet.untilMs) : nowMs;
    const inputs: PlaceInput[] = [];
    let isWaitedFor = false;
    for (const [task, places] of this.#places.tasks) {
      const owned = places.find(({ tail }) => tail.offset !== undefined);
      if (
        !owned ||
        (this.#due.goesByTime && !places.every((place) => quiet.places.get(place) === place.reading))
      )
        continue;
      if (!(await this.#due.isThere(task, nowMs))) continue;
      if (await this.#due.isThere(task, wallClockMs)) inputs.push(tickOf(owned, wallClockMs));
      else isWaitedFor = true;
    }
    // What the answer takes for sent may not have been read yet: it counts for what is found quiet after it.
    if (isWaitedFor) await this.#horizon.look();
    const current = inputs.filter((input) => this.#places.isCurrent(input));
    // Others have to be computed again first: the next look is soon enough.
    if (current.length === 0 || !this.#othersAreComputed) return undefined;
    return this.#round(current.map(({ owned }) => tickOf(owned, wallClockMs)));
  }

  get #othersAreComputed(): boolean {
    return this.#outstanding.every(({ computed, generation }) => computed && generation === this.#generation);
  }

  /** A batch can only be computed ahead on top of others that are; those that are not are computed when they are settled. */
  async #untilOthersAreComputed(): Promise<void> {
    while (!this.#othersAreComputed) await this.#moved.promise;
  }

  async #round(inputs: readonly PlaceInput[]): Promise<Round> {
    const round: Round = { inputs, computed: undefined, generation: this.#generation };
    this.#outstanding.push(round);
    try {
      round.computed = await this.#computeNow(inputs);
    } catch (error) {
      // Settling computes it again, and waits until that works.
      if (!(error instanceof TroubleLoading || error instanceof Overtaken)) throw error;
    }
    return round;
  }

  /** From here on the next batch builds on this one. */
  async #computeNow(inputs: readonly PlaceInput[], condemned?: Condemned): Promise<ComputedBatch> {
    const generation = this.#generation;
    const computed = await this.#compute(this.#memory, inputs, condemned);
    if (generation !== this.#generation)
      throw new Overtaken('The places were given out anew in the meantime');
    for (const [owned, { after }] of computed.tails) owned.tail = after;
    for (const [task, { after }] of computed.tasks) task.tail = after;
    this.#memory.push(computed);
    return computed;
  }

  #noteMove(): void {
    this.#moved.resolve();
    this.#moved = withResolvers();
  }

  /** Commits a round, however long it takes. Answers with the offsets that are applied now. */
  async settle(round: Round): Promise<readonly AppliedOffset[]> {
    try {
      return await this.#settleAtLast(round);
    } finally {
      this.#outstanding.splice(this.#outstanding.indexOf(round), 1);
      this.#noteMove();
    }
  }

  async #settleAtLast(round: Round): Promise<readonly AppliedOffset[]> {
    for (;;) {
      try {
        const applied = await this.#settleOnce(round);
        if (this.#troubled) this.#noteTrouble(false);
        return applied;
      } catch (error) {
        if (this.#options.stopping.aborted) throw error;
        if (error instanceof Overtaken) continue;
        if (error instanceof ProjectionPaused) {
          await this.#untilResumed();
          continue;
        }
        // Bad records were set aside before this point: what is left is a server that does not answer, and waiting helps.
        if (error instanceof BuildReplaced)
          this.#options.log.debug({ err: error }, 'The projection makes way');
        else if (!this.#troubled) {
          this.#noteTrouble(true);
          this.#options.log.error({ err: error }, 'The projection waits; it keeps trying and loses nothing');
        }
        this.#forget();
        this.#isInDoubt = true;
        await this.#options.pause(this.#options.settings.retryDelayMs);
      }
    }
  }

  /** What is stored counts when it goes on: an operator may have been at work meanwhile. */
  async #untilResumed(): Promise<void> {
    const { gate, pause, settings, stopping } = this.#options;
    this.#forget();
    // The store may know of a pause before this process does.
    if (!gate.isPaused) await pause(settings.retryDelayMs);
    await gate.opened(stopping);
  }

  #noteTrouble(troubled: boolean): void {
    this.#troubled = troubled;
    this.#options.observer.waiting(this.#projection, troubled);
    if (!troubled) this.#options.log.warn('The projection goes on');
  }

  async #settleOnce(round: Round): Promise<readonly AppliedOffset[]> {
    const inputs = round.inputs.filter((input) => this.#places.isCurrent(input));
    if (inputs.length === 0) {
      if (this.#isInDoubt) await this.#reload();
      return [];
    }
    if (round.computed && round.generation === this.#generation)
      return this.#commitOrHalve(inputs, round.computed);
    // What is stored counts: a commit whose answer was lost may have been one.
    await this.#reload();
    return this.#settleInputs(inputs, (computed) => {
      round.computed = computed;
      round.generation = this.#generation;
      this.#noteMove();
    });
  }

  /** Computes what is still to be done of the inputs, and commits it. */
  async #settleInputs(
    inputs: readonly PlaceInput[],
    onComputed: (computed: ComputedBatch) => void = () => {},
    condemned?: Condemned,
  ): Promise<readonly AppliedOffset[]> {
    const left = inputs
      .filter((input) => this.#places.isCurrent(input))
      .flatMap((input) => this.#places.unapplied(input));
    // A commit whose answer was lost was one: whoever waits for it has to be told.
    if (left.length === 0) return inputs.flatMap((input) => this.#appliedBefore(input));
    const computed = await this.#computeNow(left, condemned);
    onComputed(computed);
    return this.#commitOrHalve(left, computed, condemned);
  }

  #appliedBefore(input: PlaceInput): readonly AppliedOffset[] {
    const { place, tail } = input.owned;
    if (!this.#places.isCurrent(input) || tail.offset === undefined || tail.offset < input.nextOffset)
      return [];
    return [{ ...place, offset: tail.offset }];
  }

  async #commitOrHalve(
    inputs: readonly PlaceInput[],
    computed: ComputedBatch,
    condemned?: Condemned,
  ): Promise<readonly AppliedOffset[]> {
    try {
      return await this.#commit(computed);
    } catch (error) {
      if (!(error instanceof RefusedData)) throw error;
      await this.#reload();
      return this.#refusal.settle(inputs, error, condemned);
    }
  }

  async #commit(computed: ComputedBatch): Promise<readonly AppliedOffset[]> {
    const { store, deadLetters, observer, log, clock, gate } = this.#options;
    const { run, letters } = computed;
    if (gate.isPaused) throw new ProjectionPaused(`${this.#projection.name} is paused`);
    if (letters.length > 0) {
      if (await hasBeenOvertaken(store, this.#projection, computed)) return this.#fenced(computed);
      // The dead letter is safe before the checkpoint passes the record: a crash here repeats it, nothing is dropped.
      await deadLetters.send(this.#projection, letters);
      observer.deadLettered(this.#projection, letters);
    }
    for (const [outside, values] of run.calls) await outside.perform(values);
    const startedMs = clock();
    const memory = this.#memory;
    const outcome = await store.commit(commitOf(this.#projection, computed));
    if (outcome.kind === 'fenced') return this.#fenced(computed);
    memory.commit(computed);
    // Whatever was computed on top of it has taken them for handled.
    if (!computed.reopened.isEmpty) this.#forget();
    tellOfCommit(computed, {
      projection: this.#projection,
      observer,
      log,
      knownFacts: outcome.knownFacts,
      startedMs,
      nowMs: clock(),
    });
    return appliedBy(computed);
  }

  /** The task has gone to another process, or an operator was there. */
  async #fenced(computed: ComputedBatch): Promise<readonly AppliedOffset[]> {
    const { observer, log } = this.#options;
    const inputs = computed.inputs.filter((input) => this.#places.isCurrent(input));
    await this.#reload();
    if (inputs.length === 0) return [];
    observer.fenced(this.#projection);
    log.warn(
      { places: inputs.map(({ owned }) => owned.name) },
      'Another process was here: what was computed is dropped, and read again from the checkpoint',
    );
    for (const { owned, nextOffset } of inputs) {
      if (owned.tail.offset !== nextOffset) this.#places.readAgain(owned);
    }
    return [];
  }

  /** What is stored counts, and nothing else. */
  async #reload(): Promise<void> {
    this.#forget();
    const generation = this.#generation;
    const owned = this.#places.all;
    const stored = await this.#options.store.loadPlaces(
      this.#projection,
      owned.map(({ place }) => place),
    );
    if (generation !== this.#generation)
      throw new Overtaken('The places were given out anew in the meantime');
    this.#places.restore(owned, stored);
    this.#isInDoubt = false;
  }

  #forget(): void {
    this.#generation++;
    this.#memory = this.#newMemory();
  }

  #newMemory(): LaneMemory {
    const { settings, topology } = this.#options;
    return new LaneMemory(settings, globalStatesOf(topology));
  }
}

/** What was computed or loaded is of no use any more: the lane has moved on while it was waited for. */
class Overtaken extends Error {
  override readonly name = 'Overtaken';
}

const withResolvers = (): PromiseWithResolvers<void> => Promise.withResolvers<void>();

const appliedBy = ({ inputs }: ComputedBatch): readonly AppliedOffset[] =>
  inputs.map(({ owned, nextOffset }) => ({ ...owned.place, offset: nextOffset }));
