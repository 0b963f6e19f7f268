import { durationText } from '../duration-text.ts';
import { positive } from '../windows.ts';

/**
 * When a window is handed on: once, when it is final; besides that with every record; or besides that at most so often. The
 * final result always comes.
 */
export type Emit = 'final' | 'on-update' | AtMostEvery;

/** By the time of the stream, or by the wall clock when the stream is quiet. */
export interface AtMostEvery {
  readonly atMostEveryMs: number;
}

/** What lies between two early results of a window at least; undefined where there are none. */
export const pauseOf = (emit: Emit): number | undefined => {
  if (emit === 'final') return undefined;
  return emit === 'on-update' ? 0 : positive('atMostEveryMs', emit.atMostEveryMs);
};

export const emitText = (emit: Emit): string => {
  if (emit === 'final') return 'handed on when final';
  if (emit === 'on-update') return 'handed on with every record and when final';
  return `handed on ${atMostEveryText(emit)} and when final`;
};

export const atMostEveryText = ({ atMostEveryMs }: AtMostEvery): string =>
  `at most every ${durationText(atMostEveryMs)}`;
