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
  readonly afterTrouble: () => number;
  readonly finish: () => Promise<void>;
  readonly says: { readonly trouble: string; readonly recovered: string; readonly unfinished: string };
}

/** One step after the other, never two at once. A step that fails is tried again; one line per trouble, not one per try. */
export const startLoop = ({ wakeSignal, log, step, afterTrouble, finish, says }: LoopOptions): Relay => {
  let stopping = false;
  let troubled = false;

  const takeStep = async (): Promise<number> => {
    try {
      const pauseMs = await step();
      if (troubled) log.warn(says.recovered);
      troubled = false;
      return pauseMs;
    } catch (error) {
      if (!troubled) log.error({ err: error }, says.trouble);
      troubled = true;
      return afterTrouble();
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
