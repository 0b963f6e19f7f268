import { setTimeout as pause } from 'node:timers/promises';
import { createWriterSchemas } from '../journal/writer-schemas.ts';
import { findBounds, findOutboxDelta } from '../relay/open-outbox-delta.ts';
import type { Place } from '../streams/record.ts';
import { type Topology, topicsOf } from '../streams/topology.ts';
import { type Build, beginCatchUp, setDelta, setPositions } from './build.ts';
import { journalDecoder } from './journal-decoder.ts';
import { eventTypesOf, JournalKinds } from './journal-kinds.ts';
import type { JournalDelta } from './journal-page.ts';
import { JournalSource } from './journal-source.ts';
import type { RebuildPorts } from './rebuild-ports.ts';
import { orAborted, type SetAside, whileRunning } from './run-build.ts';
import type { Calls } from './store-calls.ts';

const beforeEverything = '1:1:';

export interface Replay {
  readonly topology: Topology;
  readonly build: Build;
  readonly places: readonly Place[];
  readonly store: Calls;
  readonly setAside: SetAside;
  readonly onEvents: (count: number) => void;
}

/**
 * Applies the journal up to a snapshot: first everything that was there when the build began, then what was committed
 * meanwhile. After that the build stands in the topics, where they ended before the first snapshot.
 */
export const replayJournal = async (ports: RebuildPorts, replay: Replay): Promise<Build> => {
  const { database } = ports;
  let { build } = replay;
  for (;;) {
    const delta = await deltaOf(ports, build);
    if (delta) await replayDelta(ports, replay, delta);
    if (build.fromSnapshot !== beforeEverything) break;
    const from = build.toSnapshot ?? beforeEverything;
    await untilOthersEnded(ports);
    const next = await findOutboxDelta(database, from);
    const to = next?.cursor.to ?? from;
    const current = build;
    await database.transaction(async (tx) => {
      await setDelta(tx, current, { from, to });
      await setPositions(tx, current, atStart(replay.places));
    });
    build = { ...build, fromSnapshot: from, toSnapshot: to };
  }
  const reached = build;
  await database.transaction(async (tx) => {
    await setPositions(tx, reached, reached.kafkaStart ?? []);
    await beginCatchUp(tx, reached);
  });
  return { ...build, phase: 'catch-up' };
};

const atStart = (places: readonly Place[]) => places.map((place) => ({ ...place, offset: 0 }));

const endStatement = {
  name: 'find-journal-end',
  text: 'select coalesce(max(id), 0) as "finalId" from outbox',
};

const deltaOf = async (
  { database }: RebuildPorts,
  { fromSnapshot, toSnapshot }: Build,
): Promise<JournalDelta | undefined> => {
  const [from, to] = [fromSnapshot ?? beforeEverything, toSnapshot ?? beforeEverything];
  if (from === beforeEverything) {
    const [row] = await database.execute<{ finalId: number }>(endStatement);
    return { from, to, firstId: 1, finalId: row?.finalId ?? 0 };
  }
  if (from === to) return undefined;
  const { firstId, finalId } = await findBounds(database, { from, to, lastId: 0 });
  return finalId === 0 ? undefined : { from, to, firstId, finalId };
};

const replayDelta = async (ports: RebuildPorts, replay: Replay, delta: JournalDelta): Promise<void> => {
  const { database, physicalTopic, onProgress } = ports;
  const { topology, build, places, store, setAside } = replay;
  const length = delta.finalId - delta.firstId + 1;
  let events = 0;
  let appliedId = delta.firstId;
  const source = new JournalSource({
    readPage: (request) => store.readPage(request),
    delta,
    places,
    eventTypes: eventTypesOf(topicsOf(topology), physicalTopic),
    kinds: new JournalKinds(createWriterSchemas(database), physicalTopic),
    onApplied: (nextId) => {
      appliedId = Math.max(delta.firstId, nextId);
      const fraction = Math.min(1, (appliedId - delta.firstId) / length);
      onProgress({ projection: build.projection, doing: 'replaying', events, fraction });
    },
  });
  const run = {
    topology,
    source,
    decoder: journalDecoder,
    // A part of the journal has every event once, and a build that goes on does so behind what it has applied.
    store: { ...store, loadHandled: async (_: unknown, asked: readonly unknown[]) => asked.map(() => []) },
    setAside,
    onEvents: (count: number) => {
      events += count;
      replay.onEvents(count);
    },
  };
  // Nor need those be remembered that were handled before.
  const forgetful = { ...ports, settings: { ...ports.settings, handledIdsMax: 0 } };
  await whileRunning(forgetful, run, (signal) => orAborted(source.finished, signal));
};

const markStatement = { name: 'mark-transactions', text: 'select pg_current_xact_id()::text as mark' };
const endedStatement = {
  name: 'transactions-have-ended',
  text: 'select pg_snapshot_xmin(pg_current_snapshot()) >= $1::xid8 as "haveEnded"',
};
const commitWaitMs = 2000;

/**
 * A transaction may be in the middle of its commit, and in Kafka before anybody can see it: the write-ahead log is read
 * faster than that. So those under way are waited for. One that is still open after this time is simply open.
 */
const untilOthersEnded = async ({ database, signal }: RebuildPorts): Promise<void> => {
  const deadline = Date.now() + commitWaitMs;
  const [marked] = await database.execute<{ mark: string }>(markStatement);
  for (;;) {
    const [row] = await database.execute<{ haveEnded: boolean }>(endedStatement, [marked?.mark]);
    if (row?.haveEnded || Date.now() > deadline) return;
    await pause(50, undefined, { signal });
  }
};
