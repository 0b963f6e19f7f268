import { integer, oneOf, text } from './setting.ts';

const day_ms = 24 * 60 * 60 * 1000;

export const streamsSettings = {
  projections: {
    ...text({
      variable: 'MILLRACE_PROJECTIONS',
      fallback: 'all',
      describes:
        'Projections that this process runs, comma-separated; the others need a process of their own',
    }),
    parse: (value: string) => (/^[a-z][a-z,-]*$/.test(value) ? value : undefined),
    allowed: 'all, or names as `millrace topologies list` shows them',
  },
  pollRecordsMax: integer({
    variable: 'STREAMS_POLL_RECORDS_MAX',
    fallback: 10_000,
    min: 1,
    max: 100_000,
    describes: 'Records folded into one transaction',
  }),
  sessionTimeoutMs: integer({
    variable: 'STREAMS_SESSION_TIMEOUT_MS',
    fallback: 30_000,
    min: 6000,
    max: 300_000,
    describes: 'Silence after which a consumer is taken for dead',
  }),
  heartbeatIntervalMs: integer({
    variable: 'STREAMS_HEARTBEAT_INTERVAL_MS',
    fallback: 10_000,
    min: 100,
    max: 100_000,
    describes: 'Pause between two signs of life',
  }),
  startFrom: oneOf({
    variable: 'STREAMS_START_FROM',
    fallback: 'earliest',
    values: ['earliest', 'latest'],
    describes: 'Where a projection without a checkpoint starts',
  }),
  fillFromJournal: oneOf({
    variable: 'STREAMS_FILL_FROM_JOURNAL',
    fallback: 'auto',
    values: ['auto', 'manual'],
    describes:
      'Whether projectors fill a read model from the journal when topics have lost what it needs; otherwise it waits for an operator',
  }),
  retryDelayMs: integer({
    variable: 'STREAMS_RETRY_DELAY_MS',
    fallback: 1000,
    min: 1,
    max: 600_000,
    describes: 'Pause before a batch is tried again',
  }),
  handledRetentionMs: integer({
    variable: 'STREAMS_HANDLED_RETENTION_MS',
    fallback: 37 * day_ms,
    min: day_ms,
    max: 7300 * day_ms,
    describes: 'Time an event is known to have been handled; at least a day longer than it can come back',
  }),
  windowRetentionMs: integer({
    variable: 'STREAMS_WINDOW_RETENTION_MS',
    fallback: 8 * day_ms,
    min: day_ms,
    max: 7300 * day_ms,
    describes: 'Time after its beginning that a window of counts is kept, as in product_trend',
  }),
  stockOverdueMs: integer({
    variable: 'STREAMS_STOCK_OVERDUE_MS',
    fallback: day_ms,
    min: 1000,
    max: 365 * day_ms,
    describes: 'Time a product may be out of stock before it is overdue; for outages that begin from then on',
  }),
  queueBytesMax: integer({
    variable: 'STREAMS_QUEUE_BYTES_MAX',
    fallback: 8 * 1024 * 1024,
    min: 1024 * 1024,
    max: 1024 * 1024 * 1024,
    describes: 'Fetched bytes that wait to be processed in one process, shared by its projections',
  }),
  stallMs: integer({
    variable: 'STREAMS_STALL_MS',
    fallback: 60_000,
    min: 1000,
    max: 3_600_000,
    describes: 'Silence, while the broker has records, after which a consumer is started anew',
  }),
  handledIdsMax: integer({
    variable: 'STREAMS_HANDLED_IDS_MAX',
    fallback: 500_000,
    min: 1000,
    max: 100_000_000,
    describes: 'Handled event ids that one process keeps at hand, shared by its projections',
  }),
  statesMax: integer({
    variable: 'STREAMS_STATES_MAX',
    fallback: 50_000,
    min: 100,
    max: 100_000_000,
    describes: 'States of aggregations that one process keeps at hand, shared by its projections',
  }),
} as const;

export const rebuildSettings = {
  pageRecordsMax: integer({
    variable: 'REBUILD_PAGE_RECORDS_MAX',
    fallback: 20_000,
    min: 1,
    max: 100_000,
    describes: 'Events of the journal that a rebuild folds into one transaction',
  }),
  patienceMs: integer({
    variable: 'REBUILD_PATIENCE_MS',
    fallback: 60_000,
    min: 1000,
    max: 86_400_000,
    describes: 'Time the live projection may stand still while a rebuild waits to be compared with it',
  }),
} as const;
