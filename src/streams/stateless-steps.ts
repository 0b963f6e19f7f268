import { type DerivingStep, derive } from './derive.ts';
import { type OutsideCall, originAlone, type TopologyNode } from './graph.ts';
import type { Pipe } from './piped-records.ts';
import { type StepOptions, stepName } from './step-name.ts';

type NodeOf = Omit<TopologyNode, 'children'>;

/** What a stateless step is called: by the name that was given, or by its kind alone. */
export const calledBy = (
  kind: string,
  work: object,
  options?: StepOptions,
): Pick<TopologyNode, 'label' | 'name'> => {
  const name = stepName(work, options);
  return name === undefined ? { label: kind } : { label: `${kind} ${name}`, name };
};

export const pipeNode = (pipe: Pipe): NodeOf => ({
  kind: 'pipe',
  label: pipe.name,
  compile: (next) => (key, value, at) =>
    at.piped.add(pipe, next, { key, value, ...originAlone(at.origin) }, at),
});

export const toNode = (step: DerivingStep, make: (value: unknown) => unknown): NodeOf => ({
  kind: 'to',
  label: `to ${step.destination}`,
  destination: step.destination,
  derives: step.name,
  compile: () => (key, value, at) => {
    if (key === null) throw new Error(`A record without a key cannot go to ${step.destination}`);
    derive(step, { key, value: make(value) }, at);
  },
});

export const callNode = (outside: OutsideCall): NodeOf => ({
  kind: 'call',
  label: outside.name,
  compile: () => (_key, value, at) => at.run.call(outside, value),
});
