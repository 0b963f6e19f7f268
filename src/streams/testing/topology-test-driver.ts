import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Logger, pino } from 'pino';
import { Lane, type LaneSettings, type QuietPlaces, type Round } from '../lane.ts';
import { PauseGate } from '../pause-gate.ts';
import type { DeadLetter, PendingSince, RecordDecoder, StateStore, StreamsObserver } from '../ports.ts';
import type { LogIdentity, Place, RawBatch, ReplayMark } from '../record.ts';
import { placeText } from '../record.ts';
import { decode } from '../run-topology.ts';
import { silentObserver } from '../silent-observer.ts';
import { type Topology, topicsOf } from '../topology.ts';
import { createTurn, type Reading } from '../turn.ts';
import { MemoryLog } from './memory-log.ts';
import { MemoryStateStore } from './memory-state-store.ts';

export interface SentRecord {
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers?: Readonly<Record<string, Buffer>>;
  readonly replay?: ReplayMark;
}

export interface DriverOptions {
  readonly topology: Topology;
  readonly decoder: RecordDecoder;
  readonly partitions?: number;
  /** Batch sizes and the order of partitions follow from it. */
  readonly seed?: number;
  readonly store?: MemoryStateStore;
  /** What the lane sees of the store, where a test wants to break it. */
  readonly seenStore?: StateStore;
  readonly startMs?: number;
  readonly settings?: Partial<LaneSettings>;
  readonly observer?: Partial<StreamsObserver>;
  readonly logger?: Logger;
}

const silent = pino({ level: 'silent' });

/** Runs a topology in memory, over real bytes: no broker, no database, no time that passes by itself. */
export class TopologyTestDriver {
  readonly store: MemoryStateStore;
  readonly deadLetters: DeadLetter[] = [];
  /** How long lanes wanted to wait, each time they did. */
  readonly pauses: number[] = [];
  /** Holds all readers still, as an operator does who pauses the projection. */
  readonly gate = new PauseGate();
  readonly #options: DriverOptions;
  readonly #log = new Map<string, MemoryLog>();
  readonly #firstOffsets = new Map<string, number>();
  readonly #partitions: number;
  readonly #random: () => number;
  #nowMs: number;
  #relayHoldsMs: number | undefined;
  #relayIsSilent: Error | undefined;
  #reader: Reader;

  constructor(options: DriverOptions) {
    this.#options = options;
    this.#partitions = options.partitions ?? 3;
    this.#random = createRandom(options.seed ?? 1);
    this.#nowMs = options.startMs ?? 0;
    this.store = options.store ?? new MemoryStateStore();
    for (const topic of topicsOf(options.topology)) {
      for (let partition = 0; partition < this.#partitions; partition++) {
        this.#log.set(placeText({ topic, partition }), new MemoryLog());
      }
    }
    this.#reader = this.newReader();
  }

  /** Another process with the same places: it begins at the checkpoints, and may see the store in a way of its own. */
  newReader(seen: StateStore = this.#options.seenStore ?? this.store): Reader {
    const { topology, decoder, settings, observer, logger } = this.#options;
    return new Reader({
      topology,
      decoder,
      store: seen,
      settings: { retryDelayMs: 1, handledIdsMax: 10_000, statesMax: 1000, ...settings },
      log: this.#log,
      firstOffsets: this.#firstOffsets,
      deadLetters: this.deadLetters,
      pauses: this.pauses,
      gate: this.gate,
      observer: { ...silentObserver, ...observer },
      logger: logger ?? silent,
      clock: () => this.#nowMs,
      pendingSince: async () => {
        if (this.#relayIsSilent) throw this.#relayIsSilent;
        return this.#relayHoldsMs;
      },
      random: this.#random,
    });
  }

  placeFor(topic: string, key: string | null): Place {
    return { topic, partition: partitionOf(key, this.#partitions) };
  }

  /** Appends a record to the partition of its key. */
  send(topic: string, record: SentRecord): Place & { readonly offset: number } {
    const place = this.placeFor(topic, record.key);
    return { ...place, offset: this.sendTo(place, record) };
  }

  sendTo(place: Place, { key, value, headers = {}, replay }: SentRecord): number {
    const log = this.#log.get(placeText(place));
    if (!log) throw new Error(`The topology does not read ${placeText(place)}`);
    const bytes = value ?? Buffer.alloc(0);
    return log.append({
      timestampMs: this.#nowMs,
      key: key === null ? null : Buffer.from(key),
      value,
      headers,
      replay,
      bytes,
      valueStart: value ? 0 : -1,
      valueEnd: bytes.length,
    });
  }

  /** Applies everything that was sent and has not been applied, in rounds of random size. */
  async run(): Promise<void> {
    await this.#reader.runAll();
  }

  /** Sends everything again, as a relay does that died before it knew what had arrived. */
  redeliver(): void {
    for (const log of this.#log.values()) for (const record of [...log.records]) log.append(record);
  }

  /** A topic is deleted and made anew: what was in it is gone, and its offsets begin at 0 again. */
  recreateTopic(topic: string): void {
    for (const [name, log] of this.#log) if (placeOf(name).topic === topic) log.recreate();
  }

  /** The broker of a place has lost what it had from that offset on, and takes new records there. */
  truncate(place: Place, offset: number): void {
    this.#log.get(placeText(place))?.truncate(offset);
  }

  /** Does what retention does: what lies before that offset can be read no more. */
  lose(place: Place, firstOffset: number): void {
    this.#firstOffsets.set(placeText(place), firstOffset);
  }

  /** The process is gone, with whatever it had not committed; another one begins at the checkpoints. */
  restart(): void {
    this.#reader = this.newReader();
  }

  /** Reads all topics from the beginning again, as after a lost consumer offset. */
  rewind(): void {
    this.#reader.rewind();
  }

  /** Lets another driver read the same topics. */
  shareTopicsWith(other: TopologyTestDriver): void {
    for (const [name, log] of this.#log) other.#log.set(name, log);
  }

  /** An event of that time is in the journal and not in its topic: no window closes by the wall clock beyond it. */
  relayHolds(timeMs: number | undefined): void {
    this.#relayHoldsMs = timeMs;
  }

  /** Nobody can tell what is on its way to the topics. */
  relayIsSilent(error: Error | undefined): void {
    this.#relayIsSilent = error;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Lets time pass without a look at what it brings: that is left to the rounds that follow. */
  passTime(byMs: number): void {
    this.#nowMs += byMs;
  }

  async advanceWallClock(byMs: number): Promise<void> {
    this.passTime(byMs);
    await this.#reader.tick();
  }

  get reader(): Reader {
    return this.#reader;
  }

  /** The rows of a counter table, or the states of a step with that name as rows. */
  table(name: string): readonly Readonly<Record<string, unknown>>[] {
    const rows = this.store.rowsOf(name);
    return rows.length > 0
      ? rows
      : [...this.store.statesOf(name)].map(([key, value]) => ({ key, ...(value as object) }));
  }

  get output(): MemoryStateStore['derived'] {
    return this.store.derived;
  }

  get lateRecords(): number {
    return this.store.lateRecords;
  }
}

interface ReaderOptions {
  readonly topology: Topology;
  readonly decoder: RecordDecoder;
  readonly store: StateStore;
  readonly settings: LaneSettings;
  readonly log: ReadonlyMap<string, MemoryLog>;
  readonly firstOffsets: ReadonlyMap<string, number>;
  readonly deadLetters: DeadLetter[];
  readonly pauses: number[];
  readonly gate: PauseGate;
  readonly observer: StreamsObserver;
  readonly logger: Logger;
  readonly clock: () => number;
  readonly pendingSince: PendingSince;
  readonly random: () => number;
}

interface Position extends Place {
  offset: number;
  /** The log that the offset was read in. */
  log: LogIdentity | undefined;
  reading: number;
  /** Records are gone, and the lane does not want what is left. */
  isClosed?: boolean;
}

/** A process that reads: positions in the log, and a lane. Its rounds can be taken step by step. */
export class Reader {
  readonly #options: ReaderOptions;
  readonly #lane: Lane;
  readonly #stopping = new AbortController();
  readonly #positions = new Map<string, Position>();
  readonly #turn: ReturnType<typeof createTurn>;
  #reading = 0;
  #isAssigned = false;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#lane = new Lane({
      ...options,
      deadLetters: { send: async (_, letters) => void options.deadLetters.push(...letters) },
      // Time does not pass, but whoever waits with a deadline of their own gets their turn.
      pause: async (timeMs) => {
        options.pauses.push(timeMs);
        await nextTurn();
      },
      seek: (place, offset, how) => this.#seek(place, offset, how?.log),
      stopping: this.#stopping.signal,
      log: options.logger,
    });
    this.#turn = createTurn({ lane: this.#lane, clock: options.clock });
  }

  #seek(place: Place, offset: number, log: LogIdentity | undefined): number {
    this.#reading++;
    this.#positions.set(placeText(place), { ...place, offset, log, reading: this.#reading });
    return this.#reading;
  }

  /** Takes all places, as after a join. */
  async assign(): Promise<void> {
    this.#reading++;
    const places = [...this.#options.log.keys()].map((name) => ({
      ...placeOf(name),
      reading: this.#reading,
    }));
    const starts = await this.#lane.assign(places);
    for (const { topic, partition, offset, log } of starts) {
      this.#positions.set(placeText({ topic, partition }), {
        topic,
        partition,
        offset: offset ?? 0,
        log,
        reading: this.#reading,
      });
    }
    this.#isAssigned = true;
  }

  /** From now on it does not try anything again, as a process that is gone. */
  kill(): void {
    this.#stopping.abort();
  }

  rewind(): void {
    for (const position of this.#positions.values()) Object.assign(position, { offset: 0, log: undefined });
  }

  /** Some records of some places, as many as chance will have it. */
  #take(topics?: readonly string[]): readonly RawBatch[] {
    const { log, random } = this.#options;
    for (const position of this.#positions.values()) this.#noticeLoss(position);
    const open = [...this.#positions.values()].filter(
      ({ topic, isClosed }) => !isClosed && (topics?.includes(topic) ?? true),
    );
    return open.flatMap((position): RawBatch[] => {
      const { topic, partition, offset, reading } = position;
      const kept = log.get(placeText(position));
      const anew = kept?.breakFor(position);
      if (anew) {
        Object.assign(position, anew);
        const { offset: nextOffset, ...why } = anew;
        return [{ topic, partition, reading, fromOffset: nextOffset, records: [], nextOffset, ...why }];
      }
      const left = kept?.records.slice(offset) ?? [];
      const count = Math.ceil(random() * Math.min(left.length, 20));
      if (left.length === 0 || random() < 0.3) return [];
      position.offset = offset + count;
      position.log = kept?.identityAt(position.offset);
      const records = left.slice(0, count);
      const { offset: nextOffset, log: identity } = position;
      return [{ topic, partition, reading, fromOffset: offset, records, nextOffset, log: identity }];
    });
  }

  #noticeLoss(position: Position): void {
    const { topic, partition, reading, offset, isClosed } = position;
    const firstOffset = this.#options.firstOffsets.get(placeText(position)) ?? 0;
    if (isClosed || offset >= firstOffset) return;
    if (this.#lane.gone({ topic, partition, reading, firstOffset })) position.offset = firstOffset;
    else position.isClosed = true;
  }

  get isDone(): boolean {
    const positions = [...this.#positions.values()];
    return this.#isAssigned && positions.every((position) => position.isClosed || this.#isCaughtUp(position));
  }

  #isCaughtUp(place: Place): boolean {
    const [position, log] = [this.#positions.get(placeText(place)), this.#options.log.get(placeText(place))];
    if (!position || !log) return true;
    return !log.breakFor(position) && position.offset >= log.records.length;
  }

  /** Of some topics only, where it is told which. */
  async computeNext(topics?: readonly string[]): Promise<Round | undefined> {
    const { batches } = await this.read(topics);
    return batches.length === 0 ? undefined : this.#lane.compute(batches);
  }

  async read(topics?: readonly string[]): Promise<Reading> {
    if (!this.#isAssigned) await this.assign();
    const taken = this.#take(topics);
    const quiet = this.#quiet;
    return { batches: await Promise.all(taken.map((batch) => decode(this.#options.decoder, batch))), quiet };
  }

  /** Computes what was read, and now and then what the wall clock closes. */
  turn(reading: Reading): Promise<readonly Round[]> {
    return this.#turn(reading);
  }

  get #quiet(): QuietPlaces {
    return this.#lane.quietPlaces((place) => this.#isCaughtUp(place));
  }

  async settle(round: Round): Promise<void> {
    await this.#lane.settle(round);
  }

  /** One round, or two, of which the second is computed before the first is settled. */
  async step(): Promise<void> {
    const rounds = [...(await this.#turn(await this.read()))];
    // A lane computes ahead only on top of what could be computed.
    if (rounds.every(({ computed }) => computed) && this.#options.random() < 0.5) {
      rounds.push(...(await this.#turn(await this.read())));
    }
    for (const round of rounds) await this.settle(round);
  }

  async runAll(): Promise<void> {
    while (!this.isDone) await this.step();
  }

  /** Whatever windows the wall clock closes, computed and not settled. */
  async computeTick(): Promise<Round | undefined> {
    if (!this.#isAssigned) await this.assign();
    // The first look asks what is on its way to the topics, the second goes by the answer.
    return (await this.#lane.tick(this.#quiet)) ?? this.#lane.tick(this.#quiet);
  }

  async tick(): Promise<void> {
    const round = await this.computeTick();
    if (round) await this.settle(round);
  }
}

const placeOf = (name: string): Place => {
  const slash = name.lastIndexOf('/');
  return { topic: name.slice(0, slash), partition: Number(name.slice(slash + 1)) };
};

const partitionOf = (key: string | null, partitions: number): number =>
  key === null ? 0 : Number.parseInt(hash('sha1', key, 'hex').slice(0, 8), 16) % partitions;

/** Mulberry32: the same numbers for the same seed, on every machine. */
export const createRandom = (seed: number): (() => number) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
};
