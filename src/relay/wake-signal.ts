/** Lets one side say "there is work" while the other sleeps. A signal that comes before the sleep is not lost. */
export interface WakeSignal {
  signal(): void;
  /** Ends after the given time, at the next signal, or at once when one came since the last sleep. */
  sleep(timeMs: number): Promise<void>;
}

export const createWakeSignal = (): WakeSignal => {
  let signalled = false;
  let wake: (() => void) | undefined;
  return {
    signal: () => {
      signalled = true;
      wake?.();
    },
    sleep: async (timeMs) => {
      if (!signalled) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, timeMs);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      wake = undefined;
      signalled = false;
    },
  };
};
