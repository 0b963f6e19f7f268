/** A batch that is not as its producer made it, as far as its checksum and its header tell. */
export interface SuspectBatch {
  /** Where it begins, as far as it can be told. */
  readonly offset: number;
  readonly what: string;
  /** The same for the same bytes. */
  readonly fingerprint: number;
}

export type Verdict =
  | { readonly isCondemned: true }
  /** So many times it was damaged by now. */
  | { readonly isCondemned: false; readonly deliveries: number; readonly fetchAgainAfterMs: number };

/** How long to wait before a damaged batch is fetched the next time. */
const fetchAgainAfterMs = [100, 500, 2000] as const;

/**
 * Damage on the way (a network card, memory, a proxy) is gone with the next fetch, and the records are whole. What is
 * damaged on the broker's disk is damaged in the same way every time; only that is given up. Damage that changes is fetched
 * again for ever: the records are there, and nobody may pass over them.
 */
export class DamageWatch {
  #fingerprint: number | undefined;
  #sameTimes = 0;
  #deliveries = 0;

  /** Of the batch that stands next in a place; asked once for every time it was fetched. */
  judge({ fingerprint }: SuspectBatch): Verdict {
    this.#sameTimes = fingerprint === this.#fingerprint ? this.#sameTimes + 1 : 1;
    this.#fingerprint = fingerprint;
    if (this.#sameTimes > fetchAgainAfterMs.length) return { isCondemned: true };
    const waitMs = fetchAgainAfterMs[Math.min(this.#deliveries, fetchAgainAfterMs.length - 1)] as number;
    return { isCondemned: false, deliveries: ++this.#deliveries, fetchAgainAfterMs: waitMs };
  }

  /** Another batch stands next. */
  pass(): void {
    this.#fingerprint = undefined;
    this.#sameTimes = 0;
    this.#deliveries = 0;
  }
}
