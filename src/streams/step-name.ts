const givenNames = new WeakMap<object, string>();

/**
 * Gives a function the name that steps made of it have. The name that JavaScript gives it is never used: a bundler or a
 * refactoring changes that, and names are stored and compared.
 */
export const named = <F extends object>(name: string, work: F): F => {
  givenNames.set(work, name);
  return work;
};

export interface StepOptions {
  /** Shown in descriptions and pictures, and part of what is stored of handled events. */
  readonly name?: string;
}

/** The name that was given, with the step or to its function; undefined where there is none. */
export const stepName = (work: object, { name }: StepOptions = {}): string | undefined =>
  name ?? givenNames.get(work);
