import { Writable } from 'node:stream';
import { type Logger, pino } from 'pino';

export interface LoggedLine {
  readonly level: number;
  readonly msg: string;
  readonly err?: { readonly message: string };
}

/** A logger that keeps its lines. */
export const keepLines = (): { readonly log: Logger; readonly lines: LoggedLine[] } => {
  const lines: LoggedLine[] = [];
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      lines.push(JSON.parse(chunk.toString()) as LoggedLine);
      done();
    },
  });
  return { log: pino({ level: 'debug' }, stream), lines };
};
