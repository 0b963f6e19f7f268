import type { Logger } from 'pino';
import type { Config } from '../config/settings.ts';
import { type Consistency, createConsistency } from '../consistency/consistency.ts';
import { WaitingRoom, type WaitingRoomObserver } from '../consistency/waiting-room.ts';
import { topicNames } from '../event-catalogue/topic-name.ts';
import type { Database } from '../postgres/database.ts';
import { bucketOf } from '../streams/lane-memory.ts';
import { topicsOf } from '../streams/topology.ts';
import { findHandled, findModelProgress } from '../streams-postgres/find-handled.ts';
import { physicalTopic } from '../topics/topic-plan.ts';
import { projections } from './projections.ts';

/** Lets queries of this process wait for what commands of any process have done. */
export const consistencyOf = (options: {
  readonly database: Database;
  readonly config: Config;
  readonly observer: WaitingRoomObserver;
  readonly log: Logger;
}): Consistency => {
  const { database, config, observer, log } = options;
  const room = new WaitingRoom({
    look: (question) => findHandled(database, question),
    clock: () => performance.now(),
    settings: config.consistency,
    onTrouble: (error) =>
      log.warn({ err: error }, 'Nobody can tell which events are in the read models; queries wait on'),
    observer,
  });
  const { prefix } = config.topics;
  const readBy = new Map(
    projections(config).map((topology) => {
      const topics = topicsOf(topology);
      return [
        topology.name,
        new Set(topicNames.filter((name) => topics.includes(physicalTopic(prefix, name)))),
      ] as const;
    }),
  );
  return createConsistency({
    room,
    topicsOf: (model) => readBy.get(model) ?? new Set(),
    bucketOf,
    progressOf: (model) => findModelProgress(database, model),
  });
};
