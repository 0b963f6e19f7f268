import type { StateStore } from '../streams/ports.ts';
import type { JournalPage, PageRequest } from './journal-page.ts';

/** What a build needs of the database while it is filled. */
export interface Calls extends StateStore {
  readPage(request: PageRequest): Promise<JournalPage>;
  close(): Promise<void>;
}

export interface Call {
  readonly id: number;
  readonly name: keyof Calls;
  readonly args: readonly unknown[];
}

export type Answer =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: { readonly kind: string; readonly message: string } };
