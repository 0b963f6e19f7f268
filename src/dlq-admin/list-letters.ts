import { isOpen, type JudgedLetter } from './decision.ts';
import type { LetterFilter } from './letter-filter.ts';
import { type Desk, scanLetters } from './scan-letters.ts';

export interface ListRequest extends LetterFilter {
  readonly limit: number;
  /** Those, too, about which something has been decided. */
  readonly all?: boolean | undefined;
}

export interface LetterList {
  readonly letters: readonly JudgedLetter[];
  /** Whether there are more than were asked for. */
  readonly more: boolean;
}

/** Letters topic by topic, the oldest first; no further than the limit. */
export const listLetters = async (desk: Desk, request: ListRequest): Promise<LetterList> => {
  const letters: JudgedLetter[] = [];
  for await (const some of scanLetters(desk, request)) {
    for (const judged of some) {
      if (!request.all && !isOpen(judged)) continue;
      if (letters.length === request.limit) return { letters, more: true };
      letters.push(judged);
    }
  }
  return { letters, more: false };
};
