/** An event that one model must have. */
export interface Awaited {
  readonly model: string;
  readonly eventId: string;
  /** The stretch of time under which it is found among what is handled. */
  readonly bucketStartMs: number;
}

/** A stretch of one model to look at: all of it, or what came lately. */
export interface Look {
  readonly model: string;
  readonly bucketStartMs: number;
  readonly withinMs?: number;
}

export interface WaitingRoomOptions {
  /** Which events are in, in the order of what is asked: one query, however many wait. */
  readonly look: (looks: readonly Look[]) => Promise<readonly (readonly string[])[]>;
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
}

export interface WaitingRoomObserver {
  waitersChanged(count: number): void;
}

export class TooManyWaiters extends Error {
  override readonly name = 'TooManyWaiters';
  readonly retriable = true;
}

interface Waiter {
  readonly missing: Set<string>;
  readonly awaited: readonly Awaited[];
  done: (missing: readonly Awaited[]) => void;
}

/** What is known to be in of one stretch; it only grows. */
interface Stretch {
  readonly model: string;
  readonly bucketStartMs: number;
  readonly handled: Set<string>;
  /** When all of it was read; what is newer is read as it comes. */
  readWholeAt: number;
  readAt: number;
  usedAt: number;
}

/** A batch that takes longer than this from its beginning to its commit is seen with the next look at everything. */
const slowCommitMs = 1000;
const wholeLookEveryMs = 1000;
const keepStretchMs = 30_000;

/**
 * Where queries wait for events to get into their models. All of them share one look at the database, which reads what is
 * new since the last one; while nobody waits nothing is asked.
 */
export class WaitingRoom {
  readonly #options: WaitingRoomOptions;
  readonly #waiters = new Set<Waiter>();
  readonly #byEvent = new Map<string, Set<Waiter>>();
  readonly #stretches = new Map<string, Stretch>();
  #isLooking = false;
  #isClosed = false;

  constructor(options: WaitingRoomOptions) {
    this.#options = options;
  }

  /** Resolves with what is still missing when the time is over, or with nothing as soon as all of it is in. */
  async wait(
    awaited: readonly Awaited[],
    options: { readonly waitMs: number; readonly signal?: AbortSignal },
  ): Promise<readonly Awaited[]> {
    const { settings } = this.#options;
    const missing = awaited.filter((event) => !this.#isKnown(event));
    if (missing.length === 0) return [];
    if (this.#waiters.size >= settings.waitersMax) throw new TooManyWaiters('Too many queries are waiting');
    if (this.#isClosed) return missing;
    const { promise, resolve } = Promise.withResolvers<readonly Awaited[]>();
    const waiter: Waiter = { missing: new Set(missing.map(keyOf)), awaited: missing, done: resolve };
    const giveUp = (): void => this.#leave(waiter);
    const timer = setTimeout(giveUp, options.waitMs);
    options.signal?.addEventListener('abort', giveUp, { once: true });
    this.#enter(waiter);
    return promise.finally(() => {
      clearTimeout(timer);
      options.signal?.removeEventListener('abort', giveUp);
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const waiter of this.#waiters) this.#leave(waiter);
  }

  #isKnown(event: Awaited): boolean {
    const stretch = this.#stretches.get(stretchKey(event));
    if (stretch) stretch.usedAt = this.#options.clock();
    return stretch?.handled.has(event.eventId) ?? false;
  }

  #enter(waiter: Waiter): void {
    this.#waiters.add(waiter);
    for (const key of waiter.missing) {
      const others = this.#byEvent.get(key);
      if (others) others.add(waiter);
      else this.#byEvent.set(key, new Set([waiter]));
    }
    this.#options.observer?.waitersChanged(this.#waiters.size);
    if (!this.#isLooking) void this.#lookWhileAnybodyWaits();
  }

  #leave(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter)) return;
    for (const key of waiter.missing) {
      const others = this.#byEvent.get(key);
      others?.delete(waiter);
      if (others?.size === 0) this.#byEvent.delete(key);
    }
    this.#options.observer?.waitersChanged(this.#waiters.size);
    waiter.done(waiter.awaited.filter((event) => waiter.missing.has(keyOf(event))));
  }

  async #lookWhileAnybodyWaits(): Promise<void> {
    const { clock, settings, onTrouble } = this.#options;
    this.#isLooking = true;
    try {
      while (this.#waiters.size > 0) {
        const startedAt = clock();
        await this.#look(startedAt).catch(onTrouble);
        this.#forgetUnused(startedAt);
        // A look that takes long is not followed by another at once: others need the database, too.
        const tookMs = clock() - startedAt;
        if (this.#waiters.size > 0) await pause(Math.max(settings.lookIntervalMs, tookMs));
      }
    } finally {
      this.#isLooking = false;
    }
  }

  async #look(now: number): Promise<void> {
    const stretches = this.#stretchesOf(now);
    const whole = stretches.map(({ readWholeAt }) => now - readWholeAt >= wholeLookEveryMs);
    const found = await this.#options.look(
      stretches.map(({ model, bucketStartMs, readAt }, index) => ({
        model,
        bucketStartMs,
        ...(!whole[index] && { withinMs: now - readAt + slowCommitMs }),
      })),
    );
    for (const [index, stretch] of stretches.entries()) {
      stretch.readAt = now;
      if (whole[index]) stretch.readWholeAt = now;
      for (const eventId of found[index] ?? []) this.#arrived(stretch, eventId);
    }
  }

  #arrived(stretch: Stretch, eventId: string): void {
    if (stretch.handled.has(eventId)) return;
    stretch.handled.add(eventId);
    const key = keyOf({ ...stretch, eventId });
    for (const waiter of this.#byEvent.get(key) ?? []) {
      waiter.missing.delete(key);
      if (waiter.missing.size === 0) this.#leave(waiter);
    }
    this.#byEvent.delete(key);
  }

  /** Those that somebody waits for. */
  #stretchesOf(now: number): readonly Stretch[] {
    const wanted = new Set<Stretch>();
    for (const { awaited, missing } of this.#waiters)
      for (const event of awaited) {
        if (!missing.has(keyOf(event))) continue;
        const key = stretchKey(event);
        const { model, bucketStartMs } = event;
        const stretch = this.#stretches.get(key) ?? {
          model,
          bucketStartMs,
          handled: new Set(),
          readWholeAt: Number.NEGATIVE_INFINITY,
          readAt: Number.NEGATIVE_INFINITY,
          usedAt: now,
        };
        stretch.usedAt = now;
        this.#stretches.set(key, stretch);
        wanted.add(stretch);
      }
    return [...wanted];
  }

  #forgetUnused(now: number): void {
    for (const [key, { usedAt }] of this.#stretches)
      if (now - usedAt > keepStretchMs) this.#stretches.delete(key);
  }
}

const stretchKey = ({ model, bucketStartMs }: Omit<Awaited, 'eventId'>): string =>
  `${model} ${bucketStartMs}`;
const keyOf = ({ model, eventId }: Pick<Awaited, 'model' | 'eventId'>): string => `${model} ${eventId}`;
const pause = (timeMs: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, timeMs));
