import type { SearchProgress } from '../relay/ghosts/search-topics.ts';

/** Who waits longer than this wants to know for what. */
const silenceMs = 2000;
const redrawMs = 200;
const barWidth = 20;

const line = ({ done, total }: SearchProgress): string => {
  const filled = Math.min(barWidth, Math.round((done / Math.max(1, total)) * barWidth));
  const bar = `[${'#'.repeat(filled)}${'-'.repeat(barWidth - filled)}]`;
  return `${bar} ${done.toLocaleString('en-US')} of ${total.toLocaleString('en-US')} records looked up`;
};

/** A bar after two seconds, on a terminal in one line and elsewhere a line every two seconds; nothing for a short search. */
export const searchProgress = (
  output: { write(text: string): unknown; readonly isTTY?: boolean },
  clock: () => number = Date.now,
) => {
  let nextAt = clock() + silenceMs;
  let isDrawn = false;
  return {
    onProgress: (progress: SearchProgress): void => {
      if (clock() < nextAt) return;
      nextAt = clock() + (output.isTTY ? redrawMs : silenceMs);
      isDrawn = true;
      output.write(output.isTTY ? `\r${line(progress)}` : `${line(progress)}\n`);
    },
    finish: (): void => {
      if (isDrawn && output.isTTY) output.write('\n');
    },
  };
};
