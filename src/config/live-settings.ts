import { integer } from './setting.ts';

const minute_ms = 60_000;

export const liveSettings = {
  intervalMs: integer({
    variable: 'LIVE_INTERVAL_MS',
    fallback: 200,
    min: 1,
    max: 60_000,
    describes:
      'Shortest time between two looks for changes; what changes several times in between is told once',
  }),
  pollIntervalMs: integer({
    variable: 'LIVE_POLL_INTERVAL_MS',
    fallback: 1000,
    min: 10,
    max: 60_000,
    describes: 'Longest time between two looks while somebody listens, where no signal comes',
  }),
  announceIntervalMs: integer({
    variable: 'LIVE_ANNOUNCE_INTERVAL_MS',
    fallback: 50,
    min: 1,
    max: 60_000,
    describes: 'Shortest time between two signals of one projector that something changed',
  }),
  heartbeatMs: integer({
    variable: 'LIVE_HEARTBEAT_MS',
    fallback: 15_000,
    min: 10,
    max: 600_000,
    describes: 'Pause between two signs of life on a stream of events',
  }),
  clientsMax: integer({
    variable: 'LIVE_CLIENTS_MAX',
    fallback: 1000,
    min: 1,
    max: 100_000,
    describes: 'Streams of events open in one process',
  }),
  clientsPerCallerMax: integer({
    variable: 'LIVE_CLIENTS_PER_CALLER_MAX',
    fallback: 20,
    min: 1,
    max: 100_000,
    describes: 'Streams of events one caller may have open in one process',
  }),
  bufferBytesMax: integer({
    variable: 'LIVE_BUFFER_BYTES_MAX',
    fallback: 1024 * 1024,
    min: 1024,
    max: 1024 * 1024 * 1024,
    describes: 'Bytes that may wait for one client before it is dropped as too slow',
  }),
  sessionMsMax: integer({
    variable: 'LIVE_SESSION_MS_MAX',
    fallback: 15 * minute_ms,
    min: 100,
    max: 24 * 60 * minute_ms,
    describes: 'Time after which a client has to come back with its credentials; it misses nothing by that',
  }),
  retentionMs: integer({
    variable: 'LIVE_RETENTION_MS',
    fallback: 10 * minute_ms,
    min: minute_ms,
    max: 24 * 60 * minute_ms,
    describes: 'Time a client may be away and still hear of everything it missed',
  }),
} as const;
