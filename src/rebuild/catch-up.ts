import { setTimeout as pause } from 'node:timers/promises';
import { OperatorError } from '../operator-error.ts';
import type { StateStore } from '../streams/ports.ts';
import type { Place } from '../streams/record.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import { describePause, listPauses, resumeCommand } from '../streams-postgres/pauses/projection-pause.ts';
import { type Build, listPositions } from './build.ts';
import { hasReached, recordsBetween } from './positions.ts';
import type { RebuildPorts } from './rebuild-ports.ts';
import { readRelayProgress } from './relay-position.ts';
import { type SetAside, whileRunning } from './run-build.ts';
import { type PlaceOffset, TopicSource } from './topic-source.ts';

const pollMs = 100;

export interface CatchingUp {
  readonly topology: Topology;
  readonly build: Build;
  readonly places: readonly Place[];
  readonly store: StateStore;
  readonly setAside: SetAside;
  readonly onEvents: (count: number) => void;
  /** Whose position is the goal; without it the end of the topics is. */
  readonly live: { readonly projection: string; readonly version: number } | undefined;
}

/** A build that follows what is live, and can be brought to exactly the same position. */
export interface Follower {
  /** Up to a position, and not further. */
  advanceTo(position: readonly PlaceOffset[]): Promise<void>;
  /** Until little is left between the build and what it follows. */
  comeClose(): Promise<void>;
}

/** Reads the topics behind the live projection for as long as the routine takes. */
export const whileFollowing = <T>(
  ports: RebuildPorts,
  catching: CatchingUp,
  routine: (follower: Follower) => Promise<T>,
): Promise<T> => {
  const { topology, build, places, store, setAside, live } = catching;
  const { database, reader, onProgress, settings } = ports;
  let events = 0;
  let goal: readonly PlaceOffset[] = [];
  const tell = (): void => {
    const left = recordsBetween(source.applied, goal);
    const fraction = events + left === 0 ? 1 : events / (events + left);
    onProgress({ projection: build.projection, doing: 'catching up', events, fraction });
  };
  const source = new TopicSource({ reader, places, onApplied: tell });
  const run = {
    topology,
    source,
    decoder: ports.decoder,
    store,
    setAside,
    onEvents: (count: number) => {
      events += count;
      catching.onEvents(count);
    },
  };
  const endOfTopics = async (): Promise<readonly PlaceOffset[]> =>
    (await reader.ranges(topicsOf(topology))).map(({ topic, partition, end }) => ({
      topic,
      partition,
      offset: end,
    }));
  const goalNow = (): Promise<readonly PlaceOffset[]> =>
    live ? listPositions(database, live) : endOfTopics();

  return whileRunning(ports, run, async (signal) => {
    const advanceTo = async (position: readonly PlaceOffset[]): Promise<void> => {
      goal = position;
      await source.advanceTo(position, signal);
    };
    if (live) await untilLiveKnowsTheJournal(ports, catching, endOfTopics);
    return routine({
      advanceTo,
      comeClose: async () => {
        for (let left = Number.POSITIVE_INFINITY; left > settings.pollRecordsMax; ) {
          const next = await goalNow();
          await advanceTo(next);
          left = recordsBetween(source.applied, await goalNow());
        }
      },
    });
  });
};

/**
 * What was replayed from the journal is in the build, whether or not Kafka and the live projection have it already. They
 * can be compared from where the live projection has it as well.
 */
const untilLiveKnowsTheJournal = async (
  ports: RebuildPorts,
  { build, live }: CatchingUp,
  endOfTopics: () => Promise<readonly PlaceOffset[]>,
): Promise<void> => {
  const { database, signal } = ports;
  if (!live || build.source !== 'journal' || build.toSnapshot === null) return;
  const snapshot = build.toSnapshot;
  const patience = createPatience(ports, build.projection);
  for (;;) {
    const { isBehind, position } = await readRelayProgress(database, snapshot);
    if (!isBehind) break;
    patience.wait({ reason: 'the relay has not sent all events of the journal to Kafka', position });
    await pause(pollMs, undefined, { signal });
  }
  const goal = await endOfTopics();
  for (;;) {
    const position = await listPositions(database, live);
    const left = recordsBetween(position, goal);
    if (hasReached(position, goal)) return;
    const held = (await listPauses(database)).get(build.projection);
    const behind = `${left.toLocaleString('en-US')} records behind`;
    patience.wait({
      reason: `the live projection is ${held ? `${describePause(held)} and ` : ''}${behind}`,
      position: JSON.stringify(position),
      ...(held && {
        remedy: `Let it go on with ${resumeCommand(build.projection)}; the next rebuild goes on from here`,
      }),
    });
    await pause(pollMs, undefined, { signal });
  }
};

const seeWhatHoldsUp =
  'Start the relay and a projector, or see with millrace status what holds them up; the next rebuild goes on from here';

interface Waiting {
  readonly reason: string;
  /** How far it is that is waited for. */
  readonly position: string;
  readonly remedy?: string;
}

/** Waiting is fine as long as something moves. */
const createPatience = ({ settings, onProgress }: RebuildPorts, projection: string) => {
  let mark: string | undefined;
  let since = Date.now();
  return {
    wait: ({ reason, position, remedy = seeWhatHoldsUp }: Waiting): void => {
      if (mark !== position) [mark, since] = [position, Date.now()];
      onProgress({ projection, doing: 'waiting', events: 0, reason });
      if (Date.now() - since < settings.patienceMs) return;
      throw new OperatorError(
        `The rebuild of ${projection} cannot be compared with the live model: ${reason}, and nothing has moved for ${Math.round(settings.patienceMs / 1000)} s`,
        { remedy },
      );
    },
  };
};
