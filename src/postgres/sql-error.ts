const uniqueViolation = '23505';

export const isUniqueViolation = (error: unknown, constraint: string): boolean =>
  error instanceof Error &&
  'code' in error &&
  error.code === uniqueViolation &&
  'constraint' in error &&
  error.constraint === constraint;
