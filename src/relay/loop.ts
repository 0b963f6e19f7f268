import type { Logger } from 'pino';
import type { WakeSignal } from './wake-signal.ts';

/** A job that goes on until it is stopped. */
export interface Relay {
  /** There may be something to do: do not wait for the next look. */
  wake(): void;
  stop(): Promise<void>;
}

export interface LoopOptions {
  readonly wakeSignal: WakeSignal;
  readonly log: Logger;
  /** Does what there is to do and answers with how long there is nothing. */
  readonly step: () => Promise<number>;
  /** After a step that failed; answers with how long to wait before the next. */
  readonly afterTrouble: (error: Error) => number;
  /** Told of every step that failed, and with null when one works again. */
  readonly onTrouble?: (error: Error | null) => void;
  readonly finish: () => Promise<void>;
  readonly says: {
    readonly trouble: string;
    readonly recovered: string;
    readonly unfinished: string;
    /** How bad it is; an error unless told. When the database is away, all of them fail together. */
    readonly level?: 'error' | 'warn' | 'debug';
  };
}

/** One step after the other, never two at once. A step that fails is tried again; one line per trouble, not one per try. */
export const startLoop = (options: LoopOptions): Relay => {
  const { wakeSignal, log, step, afterTrouble, onTrouble, finish, says } = options;
  const { level = 'error' } = says;
  let stopping = false;
  let troubled = false;

  const takeStep = async (): Promise<number> => {
    try {
      const pauseMs = await step();
      if (troubled) {
        log[level === 'error' ? 'warn' : level](says.recovered);
        onTrouble?.(null);
      }
      troubled = false;
      return pauseMs;
    } catch (caught) {
      const error = caught instanceof Error ? caught : new Error(String(caught));
      if (!troubled) log[level]({ err: error }, says.trouble);
      troubled = true;
      onTrouble?.(error);
      return afterTrouble(error);
    }
  };

  const run = async (): Promise<void> => {
    while (!stopping) {
      const pauseMs = await takeStep();
      if (!stopping && pauseMs > 0) await wakeSignal.sleep(pauseMs);
    }
    await finish();
  };

  const finished = run().catch((error: Error) => log.error({ err: error }, says.unfinished));
  return {
    wake: wakeSignal.signal,
    stop: async () => {
      stopping = true;
      wakeSignal.signal();
      await finished;
    },
  };
};
