/** A time span as people write it, in the largest unit that fits. */
export const durationText = (timeMs: number): string => {
  if (timeMs % 3_600_000 === 0 && timeMs > 0) return `${timeMs / 3_600_000} h`;
  if (timeMs % 60_000 === 0 && timeMs > 0) return `${timeMs / 60_000} min`;
  return timeMs % 1000 === 0 ? `${timeMs / 1000} s` : `${timeMs} ms`;
};
