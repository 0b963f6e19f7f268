import { KnownEvents, type Stretch } from './known-events.ts';

/** An event that one model must have. */
export interface Awaited {
  readonly model: string;
  readonly eventId: string;
  /** The stretch of time under which it is found among what is handled. */
  readonly bucketStartMs: number;
}

export interface Missing extends Awaited {
  /** It came after its window had closed: waiting does not help. */
  readonly missedWindow?: true;
}

/** A stretch of one model to look at: all of it, or what came lately. */
export interface Look {
  readonly model: string;
  readonly bucketStartMs: number;
  readonly withinMs?: number;
}

export interface LookQuestion {
  /** The live builds of these are told, whatever else is asked. */
  readonly models: readonly string[];
  readonly stretches: readonly Look[];
  /** What is waited for: it may be handled and held back all the same. */
  readonly awaited: readonly Pick<Awaited, 'model' | 'eventId'>[];
}

/** All of it as of one moment. */
export interface LookAnswer {
  readonly builds: ReadonlyMap<string, number>;
  /** In the order of the stretches. */
  readonly found: readonly { readonly handled: readonly string[]; readonly missed: readonly string[] }[];
  /** Those of the awaited events that wait for an earlier one of their key, and are not in the model yet. */
  readonly held: readonly Pick<Awaited, 'model' | 'eventId'>[];
}

export interface WaitingRoomOptions {
  /** What has become of events: one query, however many wait. */
  readonly look: (question: LookQuestion) => Promise<LookAnswer>;
  readonly clock: () => number;
  readonly settings: WaitingRoomSettings;
  /** Called when looking fails; it is tried again, and who waits too long is told so. */
  readonly onTrouble: (error: Error) => void;
  readonly observer?: WaitingRoomObserver;
}

export interface WaitingRoomSettings {
  /** Between two looks while somebody waits. */
  readonly lookIntervalMs: number;
  readonly waitersMax: number;
  /** How long what was seen is kept that nobody asks for. */
  readonly keepMs?: number;
  /** Event ids that are kept at most, besides those of stretches that somebody waits for. */
  readonly idsMax?: number;
}

export interface WaitingRoomObserver {
  waitersChanged(count: number): void;
}

export class TooManyWaiters extends Error {
  override readonly name = 'TooManyWaiters';
  readonly retriable = true;
}

interface Waiter {
  readonly missing: Map<string, Missing>;
  done: (missing: readonly Missing[]) => void;
  /** Whether a look has been made for it. */
  isLookedFor: boolean;
  /** Its time is over; it stays for its first look. */
  isOver: boolean;
}

/** A batch that takes longer than this from its beginning to its commit is seen with the next look at everything. */
const slowCommitMs = 1000;
const wholeLookEveryMs = 1000;
/** Who does not want to wait at all waits for one look, but not for a database that does not answer. */
const firstLookMs = 1000;
const keepMsDefault = 30_000;
const idsMaxDefault = 200_000;

/**
 * Where queries wait for events to get into their models. All of them share one look at the database, which reads what is
 * new since the last one; while nobody waits nothing is asked. Nobody is let in without a look: what was seen before may
 * have been the model before.
 */
export class WaitingRoom {
  readonly #options: WaitingRoomOptions;
  readonly #keepMs: number;
  readonly #waiters = new Set<Waiter>();
  readonly #known: KnownEvents;
  #isLooking = false;
  #isClosed = false;
  #forgetting: NodeJS.Timeout | undefined;

  constructor(options: WaitingRoomOptions) {
    this.#options = options;
    this.#keepMs = options.settings.keepMs ?? keepMsDefault;
    this.#known = new KnownEvents(options.settings.idsMax ?? idsMaxDefault);
  }

  /** Ids that are kept in memory. */
  get idsKept(): number {
    return this.#known.size;
  }

  /** Resolves with what is still missing when the time is over, or with nothing as soon as all of it is in. */
  async wait(
    awaited: readonly Awaited[],
    options: { readonly waitMs: number; readonly signal?: AbortSignal },
  ): Promise<readonly Missing[]> {
    if (awaited.length === 0) return [];
    if (this.#waiters.size >= this.#options.settings.waitersMax)
      throw new TooManyWaiters('Too many queries are waiting');
    if (this.#isClosed) return awaited;
    const { promise, resolve } = Promise.withResolvers<readonly Missing[]>();
    const waiter: Waiter = {
      missing: new Map(awaited.map((event) => [keyOf(event), event])),
      done: resolve,
      isLookedFor: false,
      isOver: false,
    };
    const giveUp = (): void => this.#leave(waiter);
    const timeIsUp = (): void => {
      waiter.isOver = true;
      if (waiter.isLookedFor) giveUp();
    };
    const timers = [
      setTimeout(timeIsUp, options.waitMs),
      setTimeout(giveUp, Math.max(options.waitMs, firstLookMs)),
    ];
    options.signal?.addEventListener('abort', giveUp, { once: true });
    this.#enter(waiter);
    return promise.finally(() => {
      for (const timer of timers) clearTimeout(timer);
      options.signal?.removeEventListener('abort', giveUp);
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const waiter of this.#waiters) this.#leave(waiter);
    this.#forgetAll();
  }

  #enter(waiter: Waiter): void {
    this.#waiters.add(waiter);
    this.#options.observer?.waitersChanged(this.#waiters.size);
    if (!this.#isLooking) void this.#lookWhileAnybodyWaits();
  }

  #leave(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter)) return;
    this.#options.observer?.waitersChanged(this.#waiters.size);
    waiter.done([...waiter.missing.values()]);
  }

  async #lookWhileAnybodyWaits(): Promise<void> {
    const { clock, settings, onTrouble } = this.#options;
    this.#isLooking = true;
    clearTimeout(this.#forgetting);
    try {
      while (this.#waiters.size > 0) {
        const startedAt = clock();
        await this.#look(startedAt).catch(onTrouble);
        this.#known.trim({ now: startedAt, unusedSince: startedAt - this.#keepMs });
        // A look that takes long is not followed by another at once: others need the database, too.
        const tookMs = clock() - startedAt;
        if (this.#waiters.size > 0) await pause(Math.max(settings.lookIntervalMs, tookMs));
      }
    } finally {
      this.#isLooking = false;
      this.#forgetLater();
    }
  }

  /** Nobody may come for hours, and then nothing that is known now is of use. */
  #forgetLater(): void {
    clearTimeout(this.#forgetting);
    if (this.#isClosed) this.#forgetAll();
    else this.#forgetting = setTimeout(() => this.#forgetAll(), this.#keepMs).unref();
  }

  #forgetAll(): void {
    clearTimeout(this.#forgetting);
    this.#known.clear();
  }

  async #look(now: number): Promise<void> {
    const waiting = [...this.#waiters];
    const awaited = [...new Map(waiting.flatMap(({ missing }) => [...missing])).values()];
    const models = [...new Set(awaited.map(({ model }) => model))];
    const stretches = this.#stretchesOf(awaited, now);
    const whole = stretches.map(({ readWholeAt }) => now - readWholeAt >= wholeLookEveryMs);
    const { builds, found, held } = await this.#options.look({
      models,
      stretches: stretches.map(({ model, bucketStartMs, readAt }, index) => ({
        model,
        bucketStartMs,
        ...(!whole[index] && { withinMs: now - readAt + slowCommitMs }),
      })),
      awaited: awaited.map(({ model, eventId }) => ({ model, eventId })),
    });
    // Of another build only the newest was asked for: the next look asks for all of it.
    const same = new Set(models.filter((model) => this.#known.isStill(model, builds.get(model))));
    for (const [index, stretch] of stretches.entries()) {
      if (!same.has(stretch.model)) continue;
      stretch.readAt = now;
      if (whole[index]) stretch.readWholeAt = now;
      this.#known.add(stretch, found[index] ?? { handled: [], missed: [] });
    }
    const heldBack = new Set(held.map(keyOf));
    this.#letThrough(
      waiting,
      awaited.filter((event) => same.has(event.model) && !heldBack.has(keyOf(event))),
    );
  }

  /** Those who came during the look wait for the next one. */
  #letThrough(waiting: readonly Waiter[], notHeld: readonly Awaited[]): void {
    const known = new Map(notHeld.map((event) => [keyOf(event), this.#known.find(event)]));
    for (const waiter of waiting) {
      waiter.isLookedFor = true;
      let isInVain = false;
      for (const [key, event] of waiter.missing) {
        const state = known.get(key);
        if (state === 'handled') waiter.missing.delete(key);
        if (state === 'missed-window') {
          waiter.missing.set(key, { ...event, missedWindow: true });
          isInVain = true;
        }
      }
      if (waiter.missing.size === 0 || isInVain || waiter.isOver) this.#leave(waiter);
    }
  }

  /** Those that somebody waits for, each once. What is known to be handled need not be read again. */
  #stretchesOf(awaited: readonly Awaited[], now: number): readonly Stretch[] {
    const wanted = new Set<Stretch>();
    for (const event of awaited) {
      const stretch = this.#known.open(event, now);
      if (this.#known.find(event) === undefined) wanted.add(stretch);
    }
    return [...wanted];
  }
}

const keyOf = ({ model, eventId }: Pick<Awaited, 'model' | 'eventId'>): string => `${model} ${eventId}`;
const pause = (timeMs: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, timeMs));
