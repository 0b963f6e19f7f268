/** Remembers up to so many keys and forgets the oldest: for facts that can be asked again. */
export const createBoundedSet = (sizeMax: number) => {
  const keys = new Set<string>();
  return {
    has: (key: string): boolean => keys.has(key),
    add: (key: string): void => {
      keys.add(key);
      if (keys.size <= sizeMax) return;
      for (const oldest of keys) {
        keys.delete(oldest);
        return;
      }
    },
  };
};
