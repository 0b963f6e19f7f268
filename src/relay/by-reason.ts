import type { OutboxRow } from './outbox-source.ts';

export interface FailedAlike {
  /** The first of them. */
  readonly outboxId: number;
  readonly eventType: string;
  readonly reason: string;
  readonly events: number;
}

/** Events that failed for one reason are told of in one line: a missing topic fails thousands. */
export const byReason = (
  failed: readonly { readonly row: OutboxRow; readonly error: string }[],
): readonly FailedAlike[] => {
  const alike = Map.groupBy(failed, ({ row, error }) => `${row.eventType} ${error}`);
  return [...alike.values()].flatMap(([first, ...rest]) =>
    first
      ? {
          outboxId: first.row.id,
          eventType: first.row.eventType,
          reason: first.error,
          events: rest.length + 1,
        }
      : [],
  );
};
