import { type Logger, pino } from 'pino';

/** Says nothing. */
export const silentLog = (): Logger => pino({ level: 'silent' });

export interface LogLine {
  readonly level: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** Keeps its lines, for tests about what is logged. */
export const recordingLog = (): { log: Logger; lines: LogLine[] } => {
  const lines: LogLine[] = [];
  const log = pino(
    { level: 'debug' },
    { write: (line: string) => void lines.push(JSON.parse(line) as LogLine) },
  );
  return { log, lines };
};
