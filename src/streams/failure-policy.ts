/** What becomes of a record whose processing fails. Trouble with servers is none of this: it is waited for. */
export interface FailurePolicy {
  /** Times a failing record is tried again before it goes to the dead letters. */
  readonly retries: number;
  /** Pause before the first of them; it doubles each time. */
  readonly backoffMs: number;
  /**
   * `skip-record`: the rest goes on, as for counters. `park-key`: later records of its key go behind it, where order
   * matters, until they are replayed in order.
   */
  readonly afterRetries: 'skip-record' | 'park-key';
}

export const backoffMax = 30_000;

export const backoffOf = ({ backoffMs }: FailurePolicy, attempt: number): number =>
  Math.min(backoffMax, backoffMs * 2 ** attempt);
