import type { Logger } from 'pino';
import type { StreamsObserver } from './ports.ts';

/** Observers are told and never asked: what one throws is logged, the first time only, and nothing else comes of it. */
export const shieldedObserver = (observer: StreamsObserver, log: Logger): StreamsObserver => {
  const failed = new Set<string>();
  const shielded =
    <Told extends readonly unknown[]>(method: string, tell: (...told: Told) => void) =>
    (...told: Told): void => {
      try {
        tell(...told);
      } catch (error) {
        if (failed.has(method)) return;
        failed.add(method);
        log.error({ err: error, method }, 'An observer of the projection failed: its figures are incomplete');
      }
    };
  return {
    applied: shielded('applied', (told) => observer.applied(told)),
    deadLettered: shielded('deadLettered', (...told) => observer.deadLettered(...told)),
    fenced: shielded('fenced', (...told) => observer.fenced(...told)),
    waiting: shielded('waiting', (...told) => observer.waiting(...told)),
    begunAnew: shielded('begunAnew', (...told) => observer.begunAnew(...told)),
    stopped: shielded('stopped', (...told) => observer.stopped(...told)),
    paused: shielded('paused', (...told) => observer.paused(...told)),
  };
};
