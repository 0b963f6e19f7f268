import { OperatorError } from '../operator-error.ts';
import { breakingChanges } from '../schema-evolution/check-schemas.ts';
import { type CompatibilityPolicy, demandsOf } from '../schema-evolution/compatibility-policy.ts';

/** A schema that the registry refuses, with the reasons that it does not give. */
export class IncompatibleSchema extends OperatorError {
  readonly subject: string;
  readonly reasons: readonly string[];

  constructor(subject: string, reasons: readonly string[], cause?: unknown) {
    super(`The registry refuses the schema of ${subject}: ${reasons.join('; ') || 'it does not say why'}`, {
      remedy: 'Run `millrace schemas check` for how to do it instead',
      cause,
    });
    this.subject = subject;
    this.reasons = reasons;
  }
}

/** Why a schema does not go with what is registered, one line per field. */
export const refusalReasons = (versions: {
  readonly registered: readonly string[];
  readonly candidate: string;
  readonly policy: CompatibilityPolicy;
}): readonly string[] => {
  const { directions, transitive } = demandsOf(versions.policy);
  const counted = transitive ? versions.registered : versions.registered.slice(-1);
  const reasons = counted.flatMap((older) =>
    breakingChanges({ older, newer: versions.candidate, directions }).map(
      ({ path, rule, what }) => `${path || 'the record'} (${rule}) ${what}`,
    ),
  );
  return [...new Set(reasons)];
};
