import type { DeadLetter } from './dead-letter.ts';
import type { JudgedLetter } from './decision.ts';
import type { LetterPlace } from './letter-id.ts';

export type RefusalReason =
  /** There is no such letter, or not any more. */
  | 'missing'
  /** It does not say whose it is and where its record came from: somebody else put it there. */
  | 'foreign'
  /** Its value was too large for the letter, and its topic does not have it any more. */
  | 'value-gone'
  /** It was replayed or dropped before. */
  | 'decided'
  /** A replay of it was cut off: its record may be on its way. */
  | 'replaying'
  /** Its key is parked: its records are replayed all together, in their order. */
  | 'parked'
  /** It has been replayed as often as is allowed. */
  | 'too-often';

/** Letters that nothing is done about, for one reason. */
export interface Refusal {
  readonly reason: RefusalReason;
  readonly letters: number;
  /** The first few of them. */
  readonly examples: readonly LetterPlace[];
  /** Of the first one; with the topic of its record and its key they say what to replay instead. */
  readonly projection: string | null;
  readonly topic: string | null;
  readonly key: string | null;
}

/** Says for each of the letters why nothing may be done about it; undefined where something may. */
export type WhyNot = (letters: readonly JudgedLetter[]) => Promise<readonly (RefusalReason | undefined)[]>;

const examplesMax = 5;
/** More keys than anybody reads; the letters of further ones are counted together. */
const refusalsMax = 100;

/** Puts refused letters together: those of a parked key by their key, the others by the reason. */
export const createRefusals = () => {
  const refusals = new Map<string, { -readonly [Field in keyof Refusal]: Refusal[Field] }>();
  const note = (reason: RefusalReason, place: LetterPlace, letter?: DeadLetter): void => {
    const { projection = null, key = null, original = null } = letter ?? {};
    const told = { reason, projection, topic: original?.topic ?? null, key };
    const ofItsKey = reason === 'parked' ? JSON.stringify(Object.values(told)) : reason;
    const id = refusals.size < refusalsMax || refusals.has(ofItsKey) ? ofItsKey : `more ${reason}`;
    const refusal = refusals.get(id) ?? { ...told, letters: 0, examples: [] };
    refusals.set(id, {
      ...refusal,
      letters: refusal.letters + 1,
      examples: refusal.examples.length < examplesMax ? [...refusal.examples, place] : refusal.examples,
    });
  };
  return { note, all: (): readonly Refusal[] => [...refusals.values()] };
};
