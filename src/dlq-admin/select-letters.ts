import { type DeadLetter, letterIdentity, toDeadLetter } from './dead-letter.ts';
import { isOpen, type JudgedLetter } from './decision.ts';
import { findDecisions } from './find-decisions.ts';
import { type LetterFilter, lettersMax } from './letter-filter.ts';
import { type LetterPlace, placeKey } from './letter-id.ts';
import { createRefusals, type Refusal, type WhyNot } from './refusal.ts';
import { type Desk, readPlaces, scanLetters } from './scan-letters.ts';

/** Which letters something is to be decided about. */
export type LetterSelection =
  | { readonly by: 'ids'; readonly places: readonly LetterPlace[] }
  /** Everything of a key, as one sequence for each projection and partition. */
  | {
      readonly by: 'key';
      readonly key: string;
      readonly topic?: string | undefined;
      readonly projection?: string | undefined;
      /** Only what has come since then; for whoever has seen the rest. */
      readonly since?: Date | undefined;
    }
  | { readonly by: 'filter'; readonly filter: LetterFilter; readonly limit: number };

export interface Selected {
  /** In the order in which their records came for the first time; each record once for each projection. */
  readonly letters: readonly DeadLetter[];
  readonly refused: readonly Refusal[];
  /** Whether there are more than can be taken at once: the rest can be next. */
  readonly more: boolean;
}

/** Finds the letters and sorts out those that nothing may be done about. */
export const selectLetters = (desk: Desk, selection: LetterSelection, whyNot: WhyNot): Promise<Selected> => {
  switch (selection.by) {
    case 'ids':
      return selectByIds(desk, selection.places, whyNot);
    case 'key':
      return selectKey(desk, selection, whyNot);
    case 'filter':
      return selectByFilter(desk, selection, whyNot);
  }
};

/** And of a record that came back, the earlier letter first. */
const inOriginalOrder = (a: DeadLetter, b: DeadLetter): number =>
  (a.original?.offset ?? 0) - (b.original?.offset ?? 0) ||
  a.replays - b.replays ||
  a.place.offset - b.place.offset;

const lettersOf = (judged: readonly JudgedLetter[]): DeadLetter[] =>
  judged.map(({ letter }) => letter).sort(inOriginalOrder);

const selectByIds = async (
  { reader, database }: Desk,
  places: readonly LetterPlace[],
  whyNot: WhyNot,
): Promise<Selected> => {
  const refusals = createRefusals();
  const records = await readPlaces(reader, places);
  const found = new Map<string, DeadLetter>();
  for (const place of places) {
    const record = records.get(placeKey(place));
    if (!record) refusals.note('missing', place);
    else {
      const letter = toDeadLetter(place, record);
      found.set(letterIdentity(letter), letter);
    }
  }
  const letters = [...found.values()];
  const decisions = await findDecisions(database, letters);
  const judged = letters.map((letter, index) => ({ letter, decision: decisions[index] }));
  const allowed = await sortOut(judged, whyNot, refusals);
  return { letters: lettersOf(allowed), refused: refusals.all(), more: false };
};

const selectKey = async (
  desk: Desk,
  { key, topic, projection, since }: LetterSelection & { readonly by: 'key' },
  whyNot: WhyNot,
): Promise<Selected> => {
  let found = new Map<string, JudgedLetter>();
  let more = false;
  // Later letters may belong before earlier ones, so all have to be seen; what is kept of them stays bounded.
  const keepTheFirst = (): void => {
    const kept = [...found].sort(([, a], [, b]) => inOriginalOrder(a.letter, b.letter)).slice(0, lettersMax);
    more ||= kept.length < found.size;
    found = new Map(kept);
  };
  for await (const some of scanLetters(desk, { key, topic, projection, since })) {
    for (const judged of some) if (isOpen(judged)) found.set(letterIdentity(judged.letter), judged);
    if (found.size > 2 * lettersMax) keepTheFirst();
  }
  keepTheFirst();
  const refusals = createRefusals();
  const allowed = await sortOut([...found.values()], whyNot, refusals);
  return { letters: lettersOf(allowed), refused: refusals.all(), more };
};

const selectByFilter = async (
  desk: Desk,
  { filter, limit }: { filter: LetterFilter; limit: number },
  whyNot: WhyNot,
): Promise<Selected> => {
  const found = new Map<string, JudgedLetter>();
  const refusals = createRefusals();
  const answer = (more: boolean): Selected => ({
    letters: lettersOf([...found.values()]),
    refused: refusals.all(),
    more,
  });
  for await (const some of scanLetters(desk, filter)) {
    for (const judged of await sortOut(some.filter(isOpen), whyNot, refusals)) {
      const identity = letterIdentity(judged.letter);
      if (found.size === limit && !found.has(identity)) return answer(true);
      found.set(identity, judged);
    }
  }
  return answer(false);
};

const sortOut = async (
  judged: readonly JudgedLetter[],
  whyNot: WhyNot,
  refusals: ReturnType<typeof createRefusals>,
): Promise<readonly JudgedLetter[]> => {
  const reasons = await whyNot(judged);
  return judged.filter(({ letter }, index) => {
    const reason = reasons[index];
    if (reason) refusals.note(reason, letter.place, letter);
    return reason === undefined;
  });
};
