import { readEnvelope } from '../avro/read-envelope.ts';
import type { Config } from '../config/settings.ts';
import type { GoldenPath } from '../schema-evolution/golden-events.ts';
import { projections } from './projections.ts';

/** How golden events travel: read as every event is, then through every projection there is, on topics without a prefix. */
export const goldenPath = (config: Config): GoldenPath => ({
  read: readEnvelope,
  topologies: projections({ ...config, topics: { ...config.topics, prefix: '' } }),
});
