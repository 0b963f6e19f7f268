import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { type Access, createAccess } from '../auth/access.ts';
import type { Config } from '../config/settings.ts';
import { listen } from '../http/listen.ts';
import type { HealthChecks } from '../http/routes/health.ts';
import { buildServer } from '../http/server.ts';
import type { Endpoints } from '../infra/infrastructure.ts';
import { measureHttp } from '../metrics/http-metrics.ts';
import { measureLive } from '../metrics/live-metrics.ts';
import { createMetricRegistry } from '../metrics/metric-registry.ts';
import { measureOutbox } from '../metrics/outbox-metrics.ts';
import { measureProcess } from '../metrics/process-metrics.ts';
import { measureProductCache } from '../metrics/product-cache-metrics.ts';
import { measureRelay } from '../metrics/relay-metrics.ts';
import { measureStreams } from '../metrics/streams-metrics.ts';
import { measureWaiting } from '../metrics/waiting-metrics.ts';
import { startGhostWatch } from '../relay/ghosts/watch-ghosts.ts';
import { readOutboxFigures } from '../relay/outbox-figures.ts';
import { startStallWatch } from '../relay/stall/watch-stalls.ts';
import { type Adapters, openAdapters } from './adapters.ts';
import { ghostSearchOf } from './ghost-search.ts';
import { openProductCache } from './open-product-cache.ts';
import { prepareBroker, prepareDatabase } from './prepare.ts';
import { startApi } from './start-api.ts';
import { startProjector } from './start-projector.ts';
import { startRelayRole } from './start-relay-role.ts';

export type Role = Config['process']['role'];

export interface App {
  readonly url: string;
  /** Settles with the reason when a part has given up and the process should end. */
  readonly failed: Promise<Error>;
  stop(): Promise<void>;
}

/** A running part of the process: stopped in the reverse order of starting. */
export interface Part {
  stop(): Promise<void>;
  readonly failed?: Promise<Error>;
  readonly healthChecks?: HealthChecks;
}

export const hasApi = (role: Role): boolean => role === 'all' || role === 'api';

/** Who may call this process; decided before anything is started, so that a mistake in it is heard of first. */
export const accessFor = async (config: Config, role: Role): Promise<Access | undefined> =>
  hasApi(role)
    ? createAccess({ settings: config.auth, host: config.http.host, dataDir: config.infra.dataDir })
    : undefined;

/** Starts the roles this process has, and undoes everything when one cannot start. */
export const startApp = async (options: {
  config: Config;
  endpoints: Endpoints;
  role: Role;
  access: Access | undefined;
  log: Logger;
}): Promise<App> => {
  const { config, endpoints, role, access, log } = options;
  const adapters = openAdapters(config, endpoints, log);
  const metrics = createMetricRegistry();
  measureProcess(metrics);
  measureOutbox(metrics, { read: () => readOutboxFigures(adapters.database), ...config.metrics });
  const parts: Part[] = [{ stop: () => adapters.database.close() }];
  const stop = async (): Promise<void> => {
    for (let part = parts.pop(); part; part = parts.pop()) await part.stop();
  };

  try {
    await prepareDatabase(endpoints.databaseUrl, adapters, config, log);
    if (role !== 'api') await prepareBroker(adapters, config, log);

    const cache = openProductCache(config, endpoints.redisUrl, log);
    parts.push({ stop: () => cache.close() });
    const relay =
      role === 'all' || role === 'relay'
        ? await startRelayRole({
            adapters,
            databaseUrl: endpoints.databaseUrl,
            config,
            metrics: measureRelay(metrics),
            log,
          })
        : undefined;
    if (relay) {
      parts.push(relay);
      parts.push(
        startGhostWatch({
          ...ghostSearchOf(adapters, config),
          holder: adapters.processName,
          log: log.child({ part: 'relay' }),
        }),
      );
    }
    if (role === 'all' || role === 'projector') {
      const observer = measureStreams(metrics);
      parts.push(
        await startProjector({ adapters, cache, config, observer, databaseUrl: endpoints.databaseUrl, log }),
      );
    }

    // Whoever takes commands or relays has reason to say why events are late; one of them at a time does.
    if (role !== 'projector') {
      parts.push(
        startStallWatch({
          database: adapters.database,
          settings: config.relay,
          holder: adapters.processName,
          log: log.child({ part: 'relay' }),
        }),
      );
    }

    const api =
      access &&
      startApi({
        adapters,
        access,
        cache,
        cacheObserver: measureProductCache(metrics),
        databaseUrl: endpoints.databaseUrl,
        liveObserver: measureLive(metrics),
        waitingObserver: measureWaiting(metrics),
        config,
        log,
        wakeRelay: () => relay?.wake(),
      });
    if (api) parts.push(api);
    const failures = parts.flatMap((part) => part.failed ?? []);
    const server = buildServer({
      log,
      bodyBytesMax: config.http.bodyBytesMax,
      requestTimeoutMs: config.http.requestTimeoutMs,
      newRequestId: randomUUID,
      healthChecks: Object.assign({ database: pingOf(adapters) }, ...parts.map((part) => part.healthChecks)),
      scrape: metrics.scrape,
      observer: measureHttp(metrics),
      ...(api && { api: api.options }),
    });
    parts.push({ stop: async () => void (await server.close()) });
    const url = await listen(server, config.http);
    return { url, failed: Promise.race(failures), stop };
  } catch (error) {
    await stop();
    throw error;
  }
};

const pingStatement = { name: 'ping', text: 'select 1' };
const pingOf =
  ({ database }: Adapters) =>
  async (): Promise<void> => {
    await database.execute(pingStatement);
  };
