import type { ParkedChange, ParkedKey, PlaceState, TaskState } from './ports.ts';
import { type LogIdentity, type Place, placeText } from './record.ts';

/** Where a place stands once everything that was computed is committed. */
export interface Tail {
  /** Undefined where the projection has never been. */
  readonly offset: number | undefined;
  /** The log that the offset belongs to, where it is known. */
  readonly log: LogIdentity | undefined;
  readonly streamTimeMs: number;
  readonly parked: ReadonlyMap<string, ParkedKey>;
}

/** Where a task stands once everything that was computed is committed. */
export interface TaskTail {
  /** Undefined where nothing was ever committed. */
  readonly commits: TaskState['commits'] | undefined;
  readonly streamTimeMs: number;
}

/** The places of one number, of all topics: they share states, and their time. */
export interface OwnedTask {
  readonly partition: number;
  tail: TaskTail;
}

/** A place that this process has, as far as it has come. */
export interface OwnedPlace {
  readonly place: Place;
  readonly name: string;
  readonly task: OwnedTask;
  /** Batches of earlier readings are dropped. */
  reading: number;
  /** Grows when the place is read again from its checkpoint. */
  epoch: number;
  /** True until the first batch of a reading that was told where to start. */
  expectsOffset: boolean;
  /** The first record that was ever read here, for a place without a checkpoint. */
  firstOffset: number | undefined;
  /** Where it waits for something that is needed to decode a record. */
  waitsAt: number | undefined;
  /** Records after its checkpoint are gone: nothing of it is read until somebody has made up for them. */
  isStopped: boolean;
  tail: Tail;
}

export const ownedPlace = (
  place: Place & { readonly reading: number },
  task: OwnedTask,
  stored: PlaceState,
): OwnedPlace => ({
  place: { topic: place.topic, partition: place.partition },
  name: placeText(place),
  task,
  reading: place.reading,
  epoch: 0,
  expectsOffset: stored.checkpoint !== undefined,
  firstOffset: undefined,
  waitsAt: undefined,
  isStopped: false,
  tail: tailOf(stored),
});

export const tailOf = ({ checkpoint, parked }: PlaceState): Tail => ({
  offset: checkpoint?.nextOffset,
  log: checkpoint?.log,
  streamTimeMs: checkpoint?.streamTimeMs ?? Number.NEGATIVE_INFINITY,
  parked: new Map(parked.map((parkedKey) => [parkedKey.key, parkedKey])),
});

/** Before tasks were kept, their time was that of their places. */
export const taskTailOf = (places: readonly PlaceState[]): TaskTail => ({
  commits: places.find(({ task }) => task)?.task?.commits,
  streamTimeMs: Math.max(
    Number.NEGATIVE_INFINITY,
    ...places.flatMap(({ task, checkpoint }) => [task, checkpoint]).map(timeOf),
  ),
});

const timeOf = (known: { readonly streamTimeMs: number } | undefined): number =>
  known?.streamTimeMs ?? Number.NEGATIVE_INFINITY;

/** What has to be stored of the parked keys to come from one tail to the next. */
export const parkedChanges = (place: Place, before: Tail, after: Tail): readonly ParkedChange[] => {
  if (before.parked === after.parked) return [];
  const keys = new Set([...before.parked.keys(), ...after.parked.keys()]);
  return [...keys]
    .filter((key) => before.parked.get(key) !== after.parked.get(key))
    .map((key) => ({
      topic: place.topic,
      partition: place.partition,
      key,
      expectedRecords: before.parked.get(key)?.records,
      parked: after.parked.get(key),
    }));
};
