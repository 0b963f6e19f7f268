import type { DueRequest, DueTimes } from './ports.ts';

/** The earliest of a state's times that have come; undefined when none has. */
export const dueSince = (
  { dueAtMs, streamDueAtMs, clockDueAtMs }: DueTimes,
  {
    untilMs,
    streamTimeMs = never,
    wallClockMs = never,
  }: Pick<DueRequest, 'untilMs' | 'streamTimeMs' | 'wallClockMs'>,
): number | undefined => {
  const earliestMs = Math.min(
    reached(dueAtMs, untilMs),
    reached(streamDueAtMs, streamTimeMs),
    reached(clockDueAtMs, wallClockMs),
  );
  return earliestMs === notReached ? undefined : earliestMs;
};

const never = Number.NEGATIVE_INFINITY;
const notReached = Number.POSITIVE_INFINITY;

const reached = (timeMs: number | undefined, untilMs: number): number =>
  timeMs !== undefined && timeMs <= untilMs ? timeMs : notReached;
