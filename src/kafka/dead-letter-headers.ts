/** Names that KIP-1034 gives, which other tools know, and our own beside them. */
export const deadLetterHeaders = {
  exception: '__streams.errors.exception',
  message: '__streams.errors.message',
  stack: '__streams.errors.stacktrace',
  topic: '__streams.errors.topic',
  partition: '__streams.errors.partition',
  offset: '__streams.errors.offset',
  projection: '__millrace.projection',
  projectionVersion: '__millrace.projection-version',
  kind: '__millrace.kind',
  failedAt: '__millrace.failed-at',
  /** Only where the record is too large for the dead letters: how many bytes are to be found in the topic alone. */
  valueLeftOut: '__millrace.value-left-out',
} as const;

/**
 * Where a replayed record stood when it came for the first time; none of the above, because the record keeps it. It has
 * another offset now, and when it fails again its letter tells that one; but the order of a key is that of the first time.
 */
export const firstOffsetHeader = '__millrace.first-offset';
