import type { StateDefinition } from './tables.ts';

/** What keeps states keeps them by key. */
export const keyed = (key: string | null, state: StateDefinition): string => {
  if (key === null) throw new Error(`A record without a key cannot be part of ${state.name}`);
  return key;
};
