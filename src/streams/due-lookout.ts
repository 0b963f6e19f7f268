import type { Logger } from 'pino';
import type { TopologyNode } from './graph.ts';
import type { OwnedTask } from './place-tail.ts';
import type { DueRequest, DueState, ProjectionId, StateStore } from './ports.ts';
import { expiryOf } from './timers/expiring-state.ts';

export interface DueLookoutOptions {
  readonly nodes: readonly TopologyNode[];
  readonly projection: ProjectionId;
  readonly store: StateStore;
  readonly log: Logger;
}

/** Looks for states that are due: windows whose time has come, and records that are held and can go on. */
export class DueLookout {
  /** Whether there is a step that has something to do when a state is due. */
  readonly hasSteps: boolean;
  /** Whether some of them go by time; what others hold can go on at any time. */
  readonly goesByTime: boolean;
  readonly holdsRecords: boolean;
  readonly #options: DueLookoutOptions;
  readonly #states: readonly string[];
  #hasTold = false;

  constructor(options: DueLookoutOptions) {
    const steps = options.nodes.filter(({ onDue }) => onDue);
    this.#options = options;
    this.#states = steps.flatMap(({ state }) => (state ? [expiryOf(state).name] : []));
    this.hasSteps = steps.length > 0;
    this.goesByTime = steps.some(({ onDue }) => !onDue?.giveUp);
    this.holdsRecords = steps.some(({ onDue }) => onDue?.giveUp);
  }

  /** Whether a state of a task is due, by its stream or by the wall clock. */
  async isThere(
    { partition, tail: { streamTimeMs } }: OwnedTask,
    wallClockMs: number,
    untilMs = wallClockMs,
  ): Promise<boolean> {
    if (Math.max(streamTimeMs, wallClockMs) === Number.NEGATIVE_INFINITY) return false;
    return (await this.#find({ partition, untilMs, streamTimeMs, wallClockMs })) !== undefined;
  }

  /** Once: a step that was renamed or taken away leaves windows that nobody closes. */
  async tellLeftBehind(tasks: readonly OwnedTask[]): Promise<void> {
    if (this.#hasTold || tasks.length === 0) return;
    this.#hasTold = true;
    const everMs = Number.POSITIVE_INFINITY;
    for (const { partition } of tasks) {
      const until = { untilMs: everMs, streamTimeMs: everMs, wallClockMs: everMs };
      const found = await this.#find({ partition, ...until, others: true });
      if (!found) continue;
      this.#options.log.warn(
        { state: found.state, key: found.key },
        'Windows of a step that the projection does not have any more are kept and never closed',
      );
      return;
    }
  }

  async #find(request: Omit<DueRequest, 'statesMax' | 'states'>): Promise<DueState | undefined> {
    const { store, projection, log } = this.#options;
    try {
      const [due] = await store.findDue(projection, { ...request, statesMax: 1, states: this.#states });
      return due;
    } catch (error) {
      // Whatever is wrong with the store is told by the batches that need it.
      log.debug({ err: error }, 'Windows that are due could not be looked for');
      return undefined;
    }
  }
}
