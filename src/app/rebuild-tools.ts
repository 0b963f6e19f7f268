import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import type { Endpoints } from '../infra/infrastructure.ts';
import { connectTopicReader } from '../kafka/topic-reader.ts';
import { openDatabase } from '../postgres/database.ts';
import { type AcceptedLoss, acceptLoss } from '../rebuild/accept-loss.ts';
import { fillLive } from '../rebuild/fill-live.ts';
import type { RebuildPorts, RebuildProgress } from '../rebuild/rebuild-ports.ts';
import { type RebuildOptions, type RebuildReport, rebuildProjection } from '../rebuild/rebuild-projection.ts';
import { type RollbackReport, rollBack } from '../rebuild/roll-back.ts';
import { openStoreInWorker } from '../rebuild/store-in-worker.ts';
import { createEnvelopeDecoder } from '../registry/envelope-decoder.ts';
import type { Topology } from '../streams/topology.ts';
import { physicalTopic } from '../topics/topic-plan.ts';
import type { Adapters } from './adapters.ts';
import { programFingerprint } from './program-fingerprint.ts';
import { serviceName } from './service-name.ts';

export interface RebuildTools {
  /** Fills what the live model lacks, unattended. */
  fill(topology: Topology): Promise<RebuildReport | undefined>;
  acceptLoss(topology: Topology, options: { readonly dryRun: boolean }): Promise<AcceptedLoss>;
  rebuild(topology: Topology, options: RebuildOptions): Promise<RebuildReport>;
  rollBack(topology: Topology): Promise<RollbackReport>;
}

export interface RebuildToolsOptions {
  readonly adapters: Pick<Adapters, 'kafka' | 'registry'>;
  readonly endpoints: Pick<Endpoints, 'databaseUrl'>;
  readonly config: Config;
  readonly who: string;
  readonly log: Logger;
  readonly onProgress: (progress: RebuildProgress) => void;
  readonly signal: AbortSignal;
}

/** Connections for one rebuild: one for its lock, one to hold the live model, one to compare, the rest to write. */
const poolSizeMax = 6;

/**
 * A server that crashes may forget the last pages of a build, each with its checkpoint: it goes on before them. The swap is
 * flushed like anything else, and everything before it with it.
 */
const settingsFor = (schema: string) => ({ search_path: `${schema},public`, synchronous_commit: 'off' });

/** The operator's tools for read models, over connections of their own: they compare whole tables in one statement. */
export const rebuildToolsOf = (options: RebuildToolsOptions): RebuildTools => {
  const { adapters, endpoints, config, log } = options;
  const databaseOptions = {
    url: endpoints.databaseUrl,
    applicationName: `${serviceName}-rebuild`,
    poolSizeMax,
    connectTimeoutMs: config.database.connectTimeoutMs,
    statementTimeoutMs: 0,
    idleTransactionTimeoutMs: config.database.idleTransactionTimeoutMs,
  };

  const withPorts = async <T>(routine: (ports: RebuildPorts) => Promise<T>): Promise<T> => {
    const database = openDatabase({
      ...databaseOptions,
      onIdleError: (error) =>
        log.debug({ err: error }, 'An idle database connection broke; the pool opens another'),
    });
    try {
      const reader = await connectTopicReader(adapters.kafka);
      try {
        return await routine({
          database,
          openStore: (schema) =>
            openStoreInWorker({ ...databaseOptions, serverSettings: settingsFor(schema) }),
          reader,
          decoder: createEnvelopeDecoder(adapters.registry),
          physicalTopic: (name) => physicalTopic(config.topics.prefix, name),
          program: programFingerprint(),
          settings: {
            ...config.streams,
            pollRecordsMax: config.rebuild.pageRecordsMax,
            patienceMs: config.rebuild.patienceMs,
          },
          who: options.who,
          log,
          onProgress: options.onProgress,
          signal: options.signal,
        });
      } finally {
        await reader.close();
      }
    } finally {
      await database.close();
    }
  };

  return {
    fill: (topology) => withPorts((ports) => fillLive(ports, topology)),
    acceptLoss: (topology, how) => withPorts((ports) => acceptLoss(ports, topology, how)),
    rebuild: (topology, how) => withPorts((ports) => rebuildProjection(ports, topology, how)),
    rollBack: (topology) => withPorts((ports) => rollBack(ports, topology)),
  };
};
