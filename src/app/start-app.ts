import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { v7 as uuidv7 } from 'uuid';
import { createCommands } from '../commands/commands.ts';
import type { Config } from '../config/settings.ts';
import type { HealthChecks } from '../http/routes/health.ts';
import type { ProductRouteOptions } from '../http/routes/products.ts';
import { buildServer, listen } from '../http/server.ts';
import type { Endpoints } from '../infra/infrastructure.ts';
import { createWriterSchemas } from '../journal/writer-schemas.ts';
import { createQueries } from '../read-model/queries.ts';
import { type Adapters, openAdapters } from './adapters.ts';
import { prepareBroker, prepareDatabase } from './prepare.ts';
import { serviceName } from './service-name.ts';
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

/** Starts the roles this process has, and undoes everything when one cannot start. */
export const startApp = async (options: {
  config: Config;
  endpoints: Endpoints;
  role: Role;
  log: Logger;
}): Promise<App> => {
  const { config, endpoints, role, log } = options;
  const adapters = openAdapters(config, endpoints, log);
  const parts: Part[] = [{ stop: () => adapters.database.close() }];
  const stop = async (): Promise<void> => {
    for (let part = parts.pop(); part; part = parts.pop()) await part.stop();
  };

  try {
    await prepareDatabase(endpoints.databaseUrl, adapters, config, log);
    if (role !== 'api') await prepareBroker(adapters, config);

    const relay = role === 'all' || role === 'relay' ? startRelayRole(adapters, config, log) : undefined;
    if (relay) parts.push(relay);
    if (role === 'all' || role === 'projector') parts.push(await startProjector(adapters, config, log));

    const api =
      role === 'all' || role === 'api' ? apiOptions(adapters, config, () => relay?.wake()) : undefined;
    const failures = parts.flatMap((part) => part.failed ?? []);
    const server = buildServer({
      log,
      bodyBytesMax: config.http.bodyBytesMax,
      requestTimeoutMs: config.http.requestTimeoutMs,
      newRequestId: randomUUID,
      healthChecks: Object.assign({ database: pingOf(adapters) }, ...parts.map((part) => part.healthChecks)),
      ...(api && { api }),
    });
    parts.push({ stop: async () => void (await server.close()) });
    const url = await listen(server, config.http);
    return { url, failed: Promise.race(failures), stop };
  } catch (error) {
    await stop();
    throw error;
  }
};

const apiOptions = ({ database }: Adapters, config: Config, wakeRelay: () => void): ProductRouteOptions => ({
  commands: createCommands({
    database,
    schemas: createWriterSchemas(database),
    source: serviceName,
    clock: () => new Date(),
    newEventId: uuidv7,
    conflictRetriesMax: config.commands.conflictRetriesMax,
    onCommitted: wakeRelay,
  }),
  queries: createQueries(database),
  newProductId: randomUUID,
});

const pingStatement = { name: 'ping', text: 'select 1' };
const pingOf =
  ({ database }: Adapters) =>
  async (): Promise<void> => {
    await database.execute(pingStatement);
  };
