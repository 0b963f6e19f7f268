import { Listr, ListrLogger, ProcessOutput } from 'listr2';
import type { ProgressReport, ReportProgress } from '../infra/infrastructure.ts';

const barWidth = 20;

const line = ({ subject, text, fraction }: ProgressReport): string => {
  const filled = Math.round((fraction ?? 0) * barWidth);
  const bar = fraction === undefined ? '' : ` [${'#'.repeat(filled)}${'-'.repeat(barWidth - filled)}]`;
  return `${subject}:${bar} ${text}`;
};

/** One line per step, for logs and pipes: percentages that only grow are left out. */
export const plainProgress = (output: NodeJS.WritableStream): ReportProgress => {
  const shown = new Map<string, string>();
  return (report) => {
    const step = `${report.state} ${report.fraction === undefined ? report.text : ''}`;
    if (shown.get(report.subject) === step) return;
    shown.set(report.subject, step);
    output.write(`${report.subject}: ${report.text}\n`);
  };
};

/** Runs the steps of a start one after the other, drawn on standard error: standard output is for the ready line. */
export const runSteps = async (
  steps: readonly { title: string; run: (report: ReportProgress) => Promise<void> }[],
): Promise<void> => {
  if (!process.stderr.isTTY) {
    const report = plainProgress(process.stderr);
    for (const step of steps) await step.run(report);
    return;
  }
  const processOutput = new ProcessOutput(process.stderr, process.stderr);
  const logger = new ListrLogger({ useIcons: true, processOutput });
  await new Listr(
    steps.map(({ title, run }) => ({
      title,
      task: async (_context, task) => {
        const newest = new Map<string, ProgressReport>();
        await run((report) => {
          newest.set(report.subject, report);
          task.output = [...newest.values()].map(line).join('\n');
        });
      },
      rendererOptions: { bottomBar: false, outputBar: Number.POSITIVE_INFINITY },
    })),
    {
      registerSignalListeners: false,
      rendererOptions: { logger, collapseErrors: false, showErrorMessage: false },
    },
  ).run();
};
