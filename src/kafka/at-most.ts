/** Waits for the work, but no longer than that. What becomes of it afterwards is not of interest. */
export const atMost = async (timeMs: number, work: Promise<unknown>): Promise<void> => {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeMs);
  });
  try {
    await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
};

/** What the work gives, or this failure when it takes longer than that. */
export const within = async <T>(
  timeMs: number,
  work: Promise<T>,
  failure: (timeMs: number) => Error,
): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failure(timeMs)), timeMs);
  });
  try {
    return await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
};
