export type Direction = 'backward' | 'forward';

/** What a check found: where, which rule, what is wrong, and how to do it instead. */
export interface Finding {
  /** The record, by its full name; `loopers.Envelope` for what every event shares. */
  readonly schema: string;
  /** The field, from the record down; empty for the record itself. */
  readonly path: string;
  readonly rule: string;
  readonly what: string;
  readonly instead: string;
  /** Numbers of the released versions that it breaks with, where it is about one. */
  readonly against: readonly number[];
  /** backward: today cannot read what was written. forward: earlier versions cannot read what is written today. */
  readonly directions: readonly Direction[];
}

export const finding = (
  found: Pick<Finding, 'schema' | 'path' | 'rule' | 'what' | 'instead'> & Partial<Finding>,
): Finding => ({ against: [], directions: [], ...found });
