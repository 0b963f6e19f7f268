import { type DeadLetter, isReplayable } from './dead-letter.ts';
import { isOpen, type JudgedLetter } from './decision.ts';
import { findLettersWithoutValue } from './left-out-values.ts';
import { findLettersOfParkedKeys, sequenceOf } from './parked-keys.ts';
import type { RefusalReason, WhyNot } from './refusal.ts';
import type { Desk } from './scan-letters.ts';

export interface ReplayRules {
  /** Times a record is replayed at most, for one projection. */
  readonly replaysMax: number;
  /** Over that, and letters that were decided about before. */
  readonly force: boolean;
}

const whyNotAlone = (
  { letter, decision }: JudgedLetter,
  withoutValue: ReadonlySet<DeadLetter>,
  { replaysMax, force }: ReplayRules,
): RefusalReason | undefined => {
  if (!isReplayable(letter)) return 'foreign';
  if (withoutValue.has(letter)) return 'value-gone';
  if (force) return undefined;
  if (!isOpen({ letter, decision })) return 'decided';
  return letter.replays >= replaysMax ? 'too-often' : undefined;
};

/** For letters that are replayed on their own: those of a parked key are not, however much one insists. */
export const whyNotReplay =
  ({ database, reader }: Desk, rules: ReplayRules): WhyNot =>
  async (judged) => {
    const letters = judged.map(({ letter }) => letter);
    const parked = await findLettersOfParkedKeys(database, letters);
    const withoutValue = await findLettersWithoutValue(reader, letters);
    return judged.map((one) => (parked.has(one.letter) ? 'parked' : whyNotAlone(one, withoutValue, rules)));
  };

/** For whole keys: what stands against one record stands against its sequence, or order would be lost. */
export const whyNotReplayKeys =
  ({ reader }: Desk, rules: ReplayRules): WhyNot =>
  async (judged) => {
    const withoutValue = await findLettersWithoutValue(
      reader,
      judged.map(({ letter }) => letter),
    );
    const against = new Map<string, RefusalReason>();
    for (const one of judged) {
      const reason = whyNotAlone(one, withoutValue, rules);
      if (reason && isReplayable(one.letter)) against.set(sequenceOf(one.letter), reason);
    }
    return judged.map(({ letter }) => (isReplayable(letter) ? against.get(sequenceOf(letter)) : 'foreign'));
  };

/** A record that may be on its way cannot be dropped: its key might be told twice that it has one less to wait for. */
export const whyNotDrop: WhyNot = async (judged) =>
  judged.map((one) => {
    if (!isOpen(one)) return 'decided';
    return one.decision ? 'replaying' : undefined;
  });
