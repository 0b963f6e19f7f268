import type { ReportProgress } from '../infra/infrastructure.ts';
import type { RebuildProgress } from '../rebuild/rebuild-ports.ts';

/** Who reads lines wants one now and then; a bar is drawn anew more often. */
const lineIntervalMs = 2000;
const barIntervalMs = 100;

interface Stretch {
  readonly doing: RebuildProgress['doing'];
  readonly startedMs: number;
  readonly startEvents: number;
  readonly startFraction: number;
}

/** How fast it goes and how long it will take, of what was done since this part of it began. */
const createPace = (clock: () => number) => {
  const stretches = new Map<string, Stretch>();
  return ({ projection, doing, events, fraction = 0 }: RebuildProgress): string => {
    const known = stretches.get(projection);
    const isSame = known?.doing === doing && events >= known.startEvents && fraction >= known.startFraction;
    const stretch = isSame
      ? known
      : { doing, startedMs: clock(), startEvents: events, startFraction: fraction };
    stretches.set(projection, stretch);
    const seconds = (clock() - stretch.startedMs) / 1000;
    if (seconds <= 0 || events === stretch.startEvents) return '';
    const rate = `, ${Math.round((events - stretch.startEvents) / seconds).toLocaleString('en-US')} events/s`;
    const gained = fraction - stretch.startFraction;
    if (gained <= 0 || fraction >= 1) return rate;
    return `${rate}, ${durationText(((1 - fraction) / gained) * seconds)} to go`;
  };
};

export const durationText = (seconds: number): string => {
  const whole = Math.max(1, Math.ceil(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
};

/** Turns what a rebuild tells into what is shown: a bar that moves, or a line now and then. */
export const rebuildProgress = (
  show: { readonly bar: ReportProgress } | { readonly line: (text: string) => void },
  clock: () => number = Date.now,
): ((progress: RebuildProgress) => void) => {
  const pace = createPace(clock);
  const told = new Map<string, { readonly doing: string; readonly atMs: number }>();
  const intervalMs = 'bar' in show ? barIntervalMs : lineIntervalMs;
  return (progress) => {
    const { projection, doing, events, fraction, reason } = progress;
    const paceText = pace(progress);
    const last = told.get(projection);
    if (last?.doing === doing && clock() - last.atMs < intervalMs) return;
    told.set(projection, { doing, atMs: clock() });
    const counted = events > 0 ? `, ${events.toLocaleString('en-US')} events` : '';
    const text = `${doing}${reason ? `: ${reason}` : ''}${counted}${paceText}`;
    if ('line' in show) {
      const percent = fraction === undefined ? '' : `${Math.floor(fraction * 100)} % `;
      show.line(`${projection}: ${percent}${text}`);
    } else
      show.bar({
        subject: projection,
        state: 'running',
        text,
        ...(fraction !== undefined && { fraction }),
      });
  };
};
