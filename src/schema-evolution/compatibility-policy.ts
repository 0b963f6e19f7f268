import type { Direction } from './finding.ts';

/** The levels of a Confluent-compatible registry, which the offline check understands the same way. */
export const compatibilityPolicies = [
  'FULL_TRANSITIVE',
  'FULL',
  'BACKWARD_TRANSITIVE',
  'BACKWARD',
  'FORWARD_TRANSITIVE',
  'FORWARD',
  'NONE',
] as const;
export type CompatibilityPolicy = (typeof compatibilityPolicies)[number];

export interface Demands {
  readonly directions: readonly Direction[];
  /** Whether every released version counts, or only the newest. */
  readonly transitive: boolean;
}

export const demandsOf = (policy: CompatibilityPolicy): Demands => ({
  directions: [
    ...(/^(FULL|BACKWARD)/.test(policy) ? (['backward'] as const) : []),
    ...(/^(FULL|FORWARD)/.test(policy) ? (['forward'] as const) : []),
  ],
  transitive: policy.endsWith('_TRANSITIVE'),
});
