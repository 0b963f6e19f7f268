import { storableText } from '../streams/parked-name.ts';
import type { DeadLetter } from './dead-letter.ts';

/** What an operator has decided about a letter. */
export interface Decision {
  readonly decision: 'replayed' | 'dropped';
  readonly attempt: number;
  readonly replayId: string | null;
  readonly who: string;
  readonly decidedAt: Date;
  /** Null when it is not known whether Kafka has the replayed record: the process ended before it could tell. */
  readonly doneAt: Date | null;
}

export const decisionColumns = `
  d.decision, d.attempt, d.replay_id as "replayId", d.who, d.decided_at as "decidedAt", d.done_at as "doneAt"`;

/** `replaying`: somebody began to, and it is not known whether it came through. Once more is harmless. */
export type LetterState = 'open' | 'replaying' | 'replayed' | 'dropped';

export const stateOf = (decision: Decision | undefined): LetterState => {
  if (!decision) return 'open';
  return decision.doneAt === null ? 'replaying' : decision.decision;
};

/** A letter with what has become of it. */
export interface JudgedLetter {
  readonly letter: DeadLetter;
  readonly decision: Decision | undefined;
}

/** Whether something can still be decided about it. */
export const isOpen = ({ decision }: JudgedLetter): boolean => decision?.doneAt == null;

/** PostgreSQL's texts cannot hold the one character that a letter from elsewhere may have in its key. */
export const storable = <T extends string | null>(text: T): T =>
  (text === null ? null : storableText(text)) as T;
