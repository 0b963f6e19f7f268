const uniqueViolation = '23505';
const deadlockDetected = '40P01';
const serializationFailure = '40001';

export const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;

export const isUniqueViolation = (error: unknown, constraint: string): boolean =>
  codeOf(error) === uniqueViolation && (error as { constraint?: unknown }).constraint === constraint;

/** Two transactions were in each other's way; the one that lost changed nothing and may simply try again. */
export const isLostRace = (error: unknown): boolean =>
  [deadlockDetected, serializationFailure].includes(codeOf(error) ?? '');

/** PostgreSQL understood the statement and refused the values: data exceptions and violated constraints. */
export const isRefusedData = (error: unknown): boolean => /^2[23]...$/.test(codeOf(error) ?? '');
