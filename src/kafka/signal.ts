/** Lets others wait until something has happened. Whoever looks first and waits then, without a pause between, misses nothing. */
export class Signal {
  readonly #waiting = new Set<() => void>();

  raise(): void {
    for (const wake of this.#waiting) wake();
  }

  /** Ends at the next signal, or after that time. */
  wait(timeMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, timeMs);
      this.#waiting.add(wake);
    });
  }
}
