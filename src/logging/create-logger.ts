import { type Logger, pino } from 'pino';
import { PinoPretty } from 'pino-pretty';

/** Logs go to standard error: standard output is for what scripts read. */
export const createLogger = (options: { level: string; format: 'auto' | 'json' | 'pretty' }): Logger => {
  const pretty = options.format === 'pretty' || (options.format === 'auto' && process.stderr.isTTY);
  const settings = { level: options.level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  if (!pretty) return pino(settings, pino.destination({ fd: 2, sync: true }));
  return pino(
    settings,
    PinoPretty({
      destination: 2,
      sync: true,
      colorize: process.stderr.isTTY,
      translateTime: 'SYS:HH:MM:ss.l',
      ignore: 'pid,hostname',
    }),
  );
};
