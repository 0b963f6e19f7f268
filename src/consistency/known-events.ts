import type { Awaited } from './waiting-room.ts';

/** What has become of the events of one stretch of a model; it only grows as long as the build is the same. */
export interface Stretch {
  readonly model: string;
  readonly bucketStartMs: number;
  readonly handled: Set<string>;
  /** Handled, and in the model all the same not, because their windows were closed. */
  readonly missed: Set<string>;
  /** When all of it was read; what is newer is read as it comes. */
  readWholeAt: number;
  readAt: number;
  usedAt: number;
}

export type Known = 'handled' | 'missed-window';

/** What is known of the live builds: bounded, and forgotten with the build that it was read from. */
export class KnownEvents {
  readonly #idsMax: number;
  readonly #builds = new Map<string, number>();
  /** The one that was used longest ago comes first. */
  readonly #stretches = new Map<string, Stretch>();
  #size = 0;

  constructor(idsMax: number) {
    this.#idsMax = idsMax;
  }

  /** Ids that are kept. */
  get size(): number {
    return this.#size;
  }

  find(event: Awaited): Known | undefined {
    const stretch = this.#stretches.get(keyOf(event));
    if (stretch?.missed.has(event.eventId)) return 'missed-window';
    return stretch?.handled.has(event.eventId) ? 'handled' : undefined;
  }

  /** The stretch that an event falls into, in use from now on. */
  open({ model, bucketStartMs }: Awaited, now: number): Stretch {
    const key = keyOf({ model, bucketStartMs });
    const stretch = this.#stretches.get(key) ?? {
      model,
      bucketStartMs,
      handled: new Set(),
      missed: new Set(),
      readWholeAt: Number.NEGATIVE_INFINITY,
      readAt: Number.NEGATIVE_INFINITY,
      usedAt: now,
    };
    stretch.usedAt = now;
    this.#stretches.delete(key);
    this.#stretches.set(key, stretch);
    return stretch;
  }

  /** False when another build is live than the one that is known: what that one had is forgotten. */
  isStill(model: string, build: number | undefined): boolean {
    const known = this.#builds.get(model);
    if (build === undefined) this.#builds.delete(model);
    else this.#builds.set(model, build);
    if (known === undefined || known === build) return true;
    for (const stretch of this.#stretches.values()) if (stretch.model === model) this.#drop(stretch);
    return false;
  }

  add(
    stretch: Stretch,
    found: { readonly handled: readonly string[]; readonly missed: readonly string[] },
  ): void {
    // One that was dropped meanwhile is of no use to anybody.
    if (this.#stretches.get(keyOf(stretch)) !== stretch) return;
    this.#size -= sizeOf(stretch);
    for (const eventId of found.handled) stretch.handled.add(eventId);
    for (const eventId of found.missed) stretch.missed.add(eventId);
    this.#size += sizeOf(stretch);
  }

  /** Drops what nobody has used since then, and what is too much, but nothing that is used now. */
  trim({ now, unusedSince }: { readonly now: number; readonly unusedSince: number }): void {
    for (const stretch of this.#stretches.values()) {
      const isTooMuch = this.#size > this.#idsMax && stretch.usedAt < now;
      if (isTooMuch || stretch.usedAt < unusedSince) this.#drop(stretch);
    }
  }

  clear(): void {
    this.#stretches.clear();
    this.#builds.clear();
    this.#size = 0;
  }

  #drop(stretch: Stretch): void {
    if (this.#stretches.delete(keyOf(stretch))) this.#size -= sizeOf(stretch);
  }
}

const sizeOf = ({ handled, missed }: Stretch): number => handled.size + missed.size;
const keyOf = ({ model, bucketStartMs }: Pick<Awaited, 'model' | 'bucketStartMs'>): string =>
  `${model} ${bucketStartMs}`;
