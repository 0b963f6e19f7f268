/** Windows of a fixed size, in event time. */
export interface FixedWindows {
  readonly kind: 'fixed';
  readonly sizeMs: number;
  /** Distance between the starts of two windows; the size itself where windows do not overlap. */
  readonly advanceMs: number;
  /** How long after its end a window still takes records, by the time of the stream. */
  readonly graceMs: number;
}

/** Windows that last as long as records keep coming, and end with a gap. */
export interface SessionWindows {
  readonly kind: 'session';
  readonly gapMs: number;
  readonly graceMs: number;
}

/**
 * Windows that the records themselves define, as in Kafka Streams: one per different set of records that lie no further apart
 * than the difference. Both ends of a window are part of it.
 */
export interface SlidingWindows {
  readonly kind: 'sliding';
  readonly differenceMs: number;
  readonly graceMs: number;
  /** Records of one key that are kept at most, because windows to come may need them: what is beyond that fails. */
  readonly recordsMax: number;
}

export type Windows = FixedWindows | SessionWindows | SlidingWindows;

export const positive = (name: string, value: number): number => {
  if (!Number.isSafeInteger(value) || value < 1)
    throw new RangeError(`${name} must be a whole number above 0`);
  return value;
};
export const notNegative = (name: string, value: number): number => {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new RangeError(`${name} must be a whole number from 0 on`);
  return value;
};

export const tumbling = (options: { readonly sizeMs: number; readonly graceMs: number }): FixedWindows =>
  hopping({ ...options, advanceMs: options.sizeMs });

export const hopping = (options: {
  readonly sizeMs: number;
  readonly advanceMs: number;
  readonly graceMs: number;
}): FixedWindows => {
  if (options.advanceMs > options.sizeMs)
    throw new RangeError('Windows that advance by more than their size leave records out');
  return {
    kind: 'fixed',
    sizeMs: positive('sizeMs', options.sizeMs),
    advanceMs: positive('advanceMs', options.advanceMs),
    graceMs: notNegative('graceMs', options.graceMs),
  };
};

export const session = (options: { readonly gapMs: number; readonly graceMs: number }): SessionWindows => ({
  kind: 'session',
  gapMs: positive('gapMs', options.gapMs),
  graceMs: notNegative('graceMs', options.graceMs),
});

const recordsMaxDefault = 1000;

export const sliding = (options: {
  readonly differenceMs: number;
  readonly graceMs: number;
  readonly recordsMax?: number;
}): SlidingWindows => ({
  kind: 'sliding',
  differenceMs: positive('differenceMs', options.differenceMs),
  graceMs: notNegative('graceMs', options.graceMs),
  recordsMax: positive('recordsMax', options.recordsMax ?? recordsMaxDefault),
});

/** Starts of the windows that a time falls into, the earliest first. */
export const windowStarts = ({ sizeMs, advanceMs }: FixedWindows, timeMs: number): readonly number[] => {
  const last = Math.floor(timeMs / advanceMs) * advanceMs;
  const starts: number[] = [];
  for (let start = last; start > timeMs - sizeMs; start -= advanceMs) starts.push(start);
  return starts.reverse();
};

/** When a window takes no more records. Of others than fixed ones the end is a time that they still take. */
export const closesAtMs = (windows: Windows, window: { readonly endMs: number }): number =>
  window.endMs + windows.graceMs + (windows.kind === 'fixed' ? 0 : 1);
