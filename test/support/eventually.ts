const pollMs = 25;

/** Tries until the assertion holds, and fails with its last complaint at the deadline. */
export const eventually = async <T>(
  assertion: () => T | Promise<T>,
  { timeoutMs = 15_000, what }: { timeoutMs?: number; what?: string } = {},
): Promise<T> => {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    try {
      return await assertion();
    } catch (error) {
      if (Date.now() > deadline) {
        const prefix = what ? `${what}: ` : '';
        throw new Error(`${prefix}not within ${timeoutMs} ms: ${(error as Error).message}`, { cause: error });
      }
      await new Promise((resolve) => setTimeout(resolve, pollMs));
    }
  }
};
