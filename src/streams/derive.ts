import { derivedId } from './derived-id.ts';
import type { StepContext } from './graph.ts';

/** A step that derives events. */
export interface DerivingStep {
  readonly topology: string;
  /** No other deriving step of the topology has it. */
  readonly name: string;
  readonly destination: string;
}

/**
 * Derives an event from the record at hand. Its id follows from that record, the topology and the step, and from how many the
 * step has made of the record before: however the records are batched, and whatever other steps derive. Answers with it.
 */
export const derive = (
  { topology, name, destination }: DerivingStep,
  event: { readonly key: string; readonly value: unknown },
  at: StepContext,
): string => {
  const { id: causationId, timeMs } = at.origin;
  const source = `${name} ${causationId}`;
  const index = at.derivedFrom.get(source) ?? 0;
  at.derivedFrom.set(source, index + 1);
  const id = derivedId(causationId, `${topology}/${name}`, index);
  at.run.derive({ id, destination, ...event, timeMs, causationId });
  return id;
};
