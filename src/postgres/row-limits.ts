/** So much more than the last time is asked for when rows have become smaller. */
const growth = 4;

/**
 * How many rows of a statement to ask for at once, from how large its last ones were: a server that is not told sends all
 * that match, however large they are, and what does not fit is thrown away here. Down at once, up step by step, so that a
 * few small rows do not call for a flood of large ones.
 */
export class RowLimits {
  readonly #limits = new Map<string, number>();

  /** Without limit until something is known. */
  of(statementName: string): number {
    return this.#limits.get(statementName) ?? Number.POSITIVE_INFINITY;
  }

  learn(statementName: string, answer: { rows: number; bytes: number; bytesMax: number }): void {
    const { rows, bytes, bytesMax } = answer;
    if (rows === 0) return;
    const fitting = Math.max(1, Math.floor((bytesMax * rows) / bytes));
    this.#limits.set(statementName, Math.min(fitting, this.of(statementName) * growth));
  }
}
