import type { OnProgress, Progress } from '../dlq-admin/scan-letters.ts';

/** Who waits longer than this wants to know for what. */
const silenceMs = 2000;

const doing: Readonly<Record<Progress['doing'], string>> = {
  reading: 'letters read',
  replaying: 'letters replayed',
  dropping: 'letters dropped',
};

/** A line every two seconds while something takes its time; nothing at all where it does not. */
export const letterProgress = (
  output: { write(text: string): unknown },
  clock: () => number = Date.now,
): OnProgress => {
  let saidAt = clock();
  return (progress) => {
    if (clock() - saidAt < silenceMs) return;
    saidAt = clock();
    const { done, total } = progress;
    output.write(
      `${done.toLocaleString('en-US')} of ${total.toLocaleString('en-US')} ${doing[progress.doing]}\n`,
    );
  };
};
