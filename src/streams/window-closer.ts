import { aside } from './aside.ts';
import { type ComputeOptions, loading, type PlaceInput } from './compute-batch.ts';
import { idAt } from './derived-id.ts';
import {
  type DueHandler,
  type FinalResult,
  nextOf,
  type Step,
  type StepContext,
  type TopologyNode,
} from './graph.ts';
import type { LaneMemory } from './lane-memory.ts';
import { placeText } from './record.ts';
import type { StateDefinition } from './tables.ts';
import { nodesOfTopology } from './topology.ts';

/** Windows that are closed in one batch at most; what is left is closed with the next one. */
const closedMax = 500;
/** A window whose result cannot be handed on has no record to set aside: it is kept and tried again after this time. */
const retryAfterMs = 60_000;

interface Closing {
  readonly state: StateDefinition;
  readonly onDue: DueHandler;
  readonly next: Step;
}

/** Hands on the windows of a place whose time has come, by its stream or, when that is quiet, by the wall clock. */
export const createWindowCloser = (
  { topology, store, projection, onWindowFailure }: ComputeOptions,
  compiled: Map<TopologyNode, Step>,
): ((at: StepContext, input: PlaceInput, memory: LaneMemory) => Promise<void>) => {
  const closings = new Map<string, Closing>(
    nodesOfTopology(topology).flatMap((node) =>
      node.onDue && node.state
        ? [[node.state.name, { state: node.state, onDue: node.onDue, next: nextOf(node, compiled) }]]
        : [],
    ),
  );
  if (closings.size === 0) return async () => {};

  /** States that became due in what is not committed yet: the store does not know of them. */
  const dueInFlight = (at: StepContext, memory: LaneMemory, untilMs: number) =>
    [...memory.inFlight.map(({ run }) => run), at.run]
      .flatMap((run) => run.states)
      .filter(
        ({ place, dueAtMs }) =>
          dueAtMs !== undefined && dueAtMs <= untilMs && placeText(place) === placeText(at.place),
      )
      .map(({ state, key, value, dueAtMs = untilMs }) => ({ state: state.name, key, value, dueAtMs }));

  return async (at, { owned, wallClockMs }, memory) => {
    const untilMs = Math.max(at.streamTimeMs, wallClockMs ?? Number.NEGATIVE_INFINITY);
    if (untilMs === Number.NEGATIVE_INFINITY) return;
    const stored = await loading(
      store.findDue(projection, { place: owned.place, untilMs, statesMax: closedMax }),
    );
    const seen = new Set<string>();
    for (const { state: name, key, value } of [...stored, ...dueInFlight(at, memory, untilMs)]) {
      const closing = closings.get(name);
      if (!closing || seen.has(`${name} ${key}`)) continue;
      seen.add(`${name} ${key}`);
      const current = at.run.find(name, key) ?? { value };
      if (current.value === undefined) continue;
      const handOn = ({ name: result, timeMs, value: final }: FinalResult): void => {
        // A window that the wall clock has closed must not be opened again by a late record.
        at.streamTimeMs = Math.max(at.streamTimeMs, timeMs);
        at.origin = { id: idAt(timeMs, `${projection.name} ${name} ${key} ${result}`), timeMs };
        closing.next(key, final, at);
      };
      const change = { place: owned.place, state: closing.state, key };
      try {
        const left = await closeOne(at, () => closing.onDue({ key, value: current.value, untilMs, handOn }));
        at.run.write({ ...change, value: undefined, ...left });
      } catch (error) {
        onWindowFailure(error as Error, { state: name, key });
        at.run.write({ ...change, value: current.value, dueAtMs: untilMs + retryAfterMs });
      }
    }
  };
};

/** What it misses is loaded with what the whole batch misses. */
const closeOne = async <T>(at: StepContext, close: () => T): Promise<T> => {
  const { done, run } = await aside(at, close);
  at.run.absorb(run);
  for (const [state, keys] of run.missing) for (const key of keys) at.run.read(state, key);
  return done;
};
