/**
 * Ways to run a relay that are documented elsewhere, as presets: each stands for the settings below unless one of them is
 * given by itself. `commerce` is how the defaults are.
 */
export const relayProfiles = {
  commerce: {},
  'order-service': {
    RELAY_POLL_INTERVAL_MS: '5000',
    RELAY_BATCH_SIZE_MAX: '10',
    RELAY_RETRIES_MAX: '5',
    RELAY_BACKOFF_BASE_MS: '100',
    RELAY_BACKOFF_MAX_MS: '1600',
    RELAY_RETRY_INTERVAL_MS: '100',
  },
  donation: {
    RELAY_POLL_INTERVAL_MS: '10000',
    RELAY_BATCH_SIZE_MAX: '100',
    RELAY_RETRIES_MAX: '3',
    RELAY_BACKOFF_BASE_MS: '30000',
    RELAY_BACKOFF_MAX_MS: '120000',
  },
  ledger: {
    RELAY_POLL_INTERVAL_MS: '2000',
    RELAY_BATCH_SIZE_MAX: '100',
    RELAY_RETRIES_MAX: '5',
  },
  transfer: {
    RELAY_POLL_INTERVAL_MS: '1000',
    RELAY_BATCH_SIZE_MAX: '500',
    RELAY_RETRIES_MAX: '5',
    RELAY_BACKOFF_BASE_MS: '2000',
    RELAY_BACKOFF_MAX_MS: '600000',
  },
} as const satisfies Record<string, Readonly<Record<string, string>>>;

export type RelayProfile = keyof typeof relayProfiles;
export const relayProfileNames = Object.keys(relayProfiles) as RelayProfile[];
