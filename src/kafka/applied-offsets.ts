import type { Logger } from 'pino';
import { type Place, placeText } from '../streams/record.ts';

export type OffsetOfPlace = Place & { readonly offset: number };

const commitEveryMs = 1000;

/**
 * Tells Kafka how far the projections have come, now and then. Only lag tools read these offsets; the checkpoints in the
 * database are the truth, so nothing waits for them and a failure loses nothing.
 */
export class AppliedOffsets {
  readonly #commit: (offsets: readonly OffsetOfPlace[]) => Promise<void>;
  readonly #log: Logger;
  #waiting = new Map<string, OffsetOfPlace>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: { commit: (offsets: readonly OffsetOfPlace[]) => Promise<void>; log: Logger }) {
    this.#commit = options.commit;
    this.#log = options.log;
  }

  report(offsets: readonly OffsetOfPlace[]): void {
    for (const offset of offsets) this.#waiting.set(placeText(offset), offset);
    if (this.#waiting.size > 0) this.#timer ??= setTimeout(() => void this.flush(), commitEveryMs);
  }

  /** What is not ours any more is somebody else's to report. */
  forget(): void {
    this.#waiting.clear();
  }

  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const offsets = [...this.#waiting.values()];
    this.#waiting = new Map();
    if (offsets.length === 0) return;
    try {
      await this.#commit(offsets);
    } catch (error) {
      this.#log.debug({ err: error }, 'Kafka did not take the offsets');
    }
  }
}
