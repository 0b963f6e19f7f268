import { OperatorError } from '../../operator-error.ts';
import { dayMs } from './handled-days.ts';

/** An event comes back as long as a topic or a dead-letter topic has it; until then it must be known that it was handled. */
export const requireHandledRetention = (retention: {
  readonly handledMs: number;
  readonly topicMs: number;
  readonly dlqMs: number;
}): void => {
  const { handledMs, topicMs, dlqMs } = retention;
  const neededMs = Math.max(topicMs, dlqMs) + dayMs;
  if (handledMs >= neededMs) return;
  throw new OperatorError(
    `STREAMS_HANDLED_RETENTION_MS is ${handledMs} (${inDays(handledMs)}), but records come back for up to ${neededMs - dayMs} (${inDays(neededMs - dayMs)}): TOPIC_RETENTION_MS is ${topicMs}, DLQ_RETENTION_MS is ${dlqMs}. What comes back after it was forgotten would count twice`,
    { remedy: `Set STREAMS_HANDLED_RETENTION_MS to ${neededMs} or more`, exitCode: 2 },
  );
};

const inDays = (timeMs: number): string => `${Math.round((timeMs / dayMs) * 10) / 10} days`;
