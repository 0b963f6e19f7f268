export interface StopReason {
  readonly why: string;
}

/** How often to look whether npm is still there. */
const parentCheckIntervalMs = 1000;

/**
 * Settles at the first reason to stop: a signal or, when npm started this process, npm's own end. npm that is killed
 * outright cannot pass anything on, and what it started would hold the port and the data for ever. A second signal
 * ends the process at once.
 */
export const stopReason = () => {
  const abort = new AbortController();
  const { promise, resolve } = Promise.withResolvers<StopReason>();
  const settle = (why: string): void => {
    if (abort.signal.aborted) return;
    resolve({ why });
    abort.abort(new Error(why));
  };

  const onSignal = (signal: NodeJS.Signals): void => {
    if (abort.signal.aborted) process.exit(130);
    settle(signal === 'SIGINT' ? 'Ctrl-C' : signal);
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, onSignal);

  const parent = process.ppid;
  const watch = process.env.npm_lifecycle_event
    ? setInterval(() => {
        if (process.ppid !== parent) settle('the npm that started this process is gone');
      }, parentCheckIntervalMs)
    : undefined;
  watch?.unref();

  return {
    reason: promise,
    signal: abort.signal,
    dispose: () => {
      clearInterval(watch);
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
};
