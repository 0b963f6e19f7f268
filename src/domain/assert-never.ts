/** Closes an exhaustive switch: a case that nobody handles does not compile. */
export const assertNever = (value: never): never => {
  throw new Error(`Unhandled case: ${JSON.stringify(value)}`);
};
