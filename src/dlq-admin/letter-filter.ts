import { parkedName } from '../streams/parked-name.ts';
import type { LetterKind } from '../streams/ports.ts';
import type { DeadLetter } from './dead-letter.ts';

export interface LetterFilter {
  /** Without prefix and ending; all of them when it is not said. */
  readonly topic?: string | undefined;
  readonly projection?: string | undefined;
  readonly kind?: LetterKind | undefined;
  /** The name of the error, or a part of its name or message. */
  readonly exception?: string | undefined;
  readonly key?: string | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
}

/** What a list shows unless told otherwise; what a list shows, and a replay or a drop takes, at most. */
export const listLimitDefault = 50;
export const lettersMax = 10_000;

/** Whether a filter narrows anything down. */
export const isEmptyFilter = (filter: LetterFilter): boolean =>
  Object.values(filter).every((value) => value === undefined);

/** By everything but the topic, which decides what is read in the first place. */
export const matches = (filter: LetterFilter, letter: DeadLetter): boolean =>
  (filter.projection === undefined || letter.projection === filter.projection) &&
  (filter.kind === undefined || letter.kind === filter.kind) &&
  (filter.exception === undefined || tells(letter, filter.exception)) &&
  (filter.key === undefined || isOfKey(letter, filter.key)) &&
  (filter.since === undefined || letter.failedAt >= filter.since) &&
  (filter.until === undefined || letter.failedAt < filter.until);

/** A key that nobody can type is also found by the name under which it is parked. */
const isOfKey = ({ key }: DeadLetter, wanted: string): boolean =>
  key === wanted || (key !== null && parkedName(key) === wanted);

const tells = ({ exception, message }: DeadLetter, text: string): boolean => {
  const wanted = text.toLowerCase();
  return exception.toLowerCase().includes(wanted) || message.toLowerCase().includes(wanted);
};
