import type { RecordProducer } from '../kafka/record-producer.ts';
import { TopicReadError, type TopicReader } from '../kafka/topic-reader.ts';
import { OperatorError } from '../operator-error.ts';
import type { Database } from '../postgres/database.ts';
import { chaseKey } from './chase-key.ts';
import { countCauses, type LetterStats } from './count-causes.ts';
import { type DeadLetter, isReplayable } from './dead-letter.ts';
import { dropLetters } from './drop-letters.ts';
import { type LetterPlace, type LetterTopics, physicalTopicOf } from './letter-id.ts';
import { type LetterList, type ListRequest, listLetters } from './list-letters.ts';
import { oneAtATime } from './one-at-a-time.ts';
import type { Refusal } from './refusal.ts';
import { type KeyScope, releaseKeys } from './release-keys.ts';
import { replayLetters } from './replay-letters.ts';
import type { Desk, OnProgress } from './scan-letters.ts';
import { type LetterSelection, selectLetters } from './select-letters.ts';
import { type ReadValue, type ShownLetter, showLetter } from './show-letter.ts';
import { type OrderSteps, type SkipReport, type SkipRequest, skipMissingVersion } from './skip-version.ts';
import { findWaitingKeys, type WaitingKey } from './waiting-keys.ts';
import { whyNotDrop, whyNotReplay, whyNotReplayKeys } from './why-not.ts';

interface LookOptions {
  readonly onProgress?: OnProgress;
}

/** Who changes something, and whether it is only to be said what would change. */
export interface ChangeOptions extends LookOptions {
  readonly who: string;
  readonly dryRun: boolean;
}

export interface ReplayOptions extends ChangeOptions {
  /** Over the cap, and letters that were decided about before. */
  readonly force: boolean;
}

export interface ReplayReport {
  /** `refused`: letters were asked for by id and one of them cannot be replayed, so none was. */
  readonly outcome: 'replayed' | 'would-replay' | 'refused';
  /** What was replayed together; null when nothing was. */
  readonly replayId: string | null;
  /** How often it was looked for more of a key, because records came while others of it were on their way. */
  readonly rounds: number;
  /** Places where the key is parked still; 0 where no key was asked for. */
  readonly stillParked: number;
  readonly letters: readonly DeadLetter[];
  /** Keys that had been parked, had nothing left to wait for, and go on. */
  readonly releasedKeys: number;
  readonly refused: readonly Refusal[];
  readonly more: boolean;
}

export interface DropReport {
  readonly outcome: 'dropped' | 'would-drop' | 'refused';
  readonly letters: readonly DeadLetter[];
  /** Keys that had been parked and go on without what was dropped. */
  readonly releasedKeys: number;
  /** Keys of the letters that wait for a version which may be that of a letter: then it will never come. */
  readonly waitingKeys: readonly WaitingKey[];
  readonly refused: readonly Refusal[];
  readonly more: boolean;
}

/** Somebody else is replaying or dropping letters. */
export interface Busy {
  readonly outcome: 'busy';
}

/** What an operator can see of the dead letters and do about them, from the command line and over HTTP alike. */
export interface DeadLetterAdmin {
  readonly topics: LetterTopics;
  list(request: ListRequest, options?: LookOptions): Promise<LetterList>;
  stats(request: Omit<ListRequest, 'limit'>, options?: LookOptions): Promise<LetterStats>;
  show(place: LetterPlace): Promise<ShownLetter | undefined>;
  replay(selection: LetterSelection, options: ReplayOptions): Promise<ReplayReport | Busy>;
  drop(selection: LetterSelection, options: ChangeOptions): Promise<DropReport | Busy>;
  /** Lets a key go on without a version that will never come. */
  skipVersion(request: SkipRequest, options: Omit<ChangeOptions, 'onProgress'>): Promise<SkipReport>;
}

export interface DeadLetterAdminOptions {
  readonly database: Database;
  readonly topics: LetterTopics;
  /** Opened for each look and each change and closed after it: nothing is held while nobody looks. */
  readonly openReader: () => Promise<TopicReader>;
  readonly openProducer: () => RecordProducer;
  readonly readValue: ReadValue;
  readonly replaysMax: number;
  readonly newReplayId: () => string;
  readonly orderSteps: OrderSteps;
}

export const createDeadLetterAdmin = (options: DeadLetterAdminOptions): DeadLetterAdmin => {
  const { database, topics, readValue } = options;

  const atDesk = async <T>(
    routine: (desk: Desk) => Promise<T>,
    onProgress: OnProgress = () => {},
  ): Promise<T> => {
    try {
      const reader = await options.openReader();
      try {
        return await routine({ database, reader, topics, onProgress });
      } finally {
        await reader.close();
      }
    } catch (cause) {
      throw cause instanceof TopicReadError ? unreadable(cause) : cause;
    }
  };

  return {
    topics,
    list: (request, look) => atDesk((desk) => listLetters(desk, request), look?.onProgress),
    stats: (request, look) => atDesk((desk) => countCauses(desk, request), look?.onProgress),
    show: (place) => atDesk((desk) => showLetter(desk, readValue, place)),
    replay: (selection, change) =>
      atDesk(
        (desk) => inTurn(database, change, () => replay(options, desk, selection, change)),
        change.onProgress,
      ),
    drop: (selection, change) =>
      atDesk(
        (desk) => inTurn(database, change, () => drop(options, desk, selection, change)),
        change.onProgress,
      ),
    skipVersion: (request, change) => skipMissingVersion(options, request, change),
  };
};

const unreadable = (cause: TopicReadError): OperatorError =>
  new OperatorError(cause.message, {
    remedy: cause.retriable
      ? 'Check that the brokers run and KAFKA_BROKERS names them'
      : 'Run a release that reads this compression, or wait until the topic has dropped these records',
    cause,
  });

/** Whoever only asks what would happen need not wait for anybody. */
const inTurn = async <T>(
  database: Database,
  { dryRun }: ChangeOptions,
  routine: () => Promise<T>,
): Promise<T | Busy> => {
  if (dryRun) return routine();
  const result = await oneAtATime(database, routine);
  return result === 'busy' ? { outcome: 'busy' } : result;
};

const replay = async (
  options: DeadLetterAdminOptions,
  desk: Desk,
  selection: LetterSelection,
  change: ReplayOptions,
): Promise<ReplayReport> => {
  const { database, topics, replaysMax, newReplayId, openProducer } = options;
  const rules = { replaysMax, force: change.force };
  const whyNot = selection.by === 'key' ? whyNotReplayKeys(desk, rules) : whyNotReplay(desk, rules);
  const { letters, refused, more } = await selectLetters(desk, selection, whyNot);
  const report = { letters, refused, more, replayId: null, releasedKeys: 0, rounds: 0, stillParked: 0 };
  if (isRefused(selection, refused)) return { ...report, outcome: 'refused' };
  const releasedKeys = letters.length === 0 ? await settleKey(options, desk, selection, change) : 0;
  if (change.dryRun) return { ...report, outcome: 'would-replay', releasedKeys };
  if (letters.length === 0) return { ...report, outcome: 'replayed', releasedKeys };
  const replayId = newReplayId();
  const producer = openProducer();
  try {
    const send = (some: readonly DeadLetter[]): Promise<void> =>
      replayLetters({ desk, database, producer }, some.filter(isReplayable), {
        id: replayId,
        who: change.who,
        chosenBy: unlessByIds(selection),
      });
    const begunAt = new Date(Date.now() - clocksApartMaxMs);
    await send(letters);
    const done = { ...report, outcome: 'replayed' as const, replayId, rounds: 1 };
    if (selection.by !== 'key' || more) return done;
    const chased = await chaseKey({
      database,
      scope: keyScopeOf(topics, selection),
      replayId,
      letters,
      findOpen: async () =>
        (await selectLetters({ ...desk, onProgress: () => {} }, { ...selection, since: begunAt }, whyNot))
          .letters,
      replay: send,
    });
    return { ...done, letters: chased.letters, rounds: chased.rounds, stillParked: chased.parked };
  } finally {
    await producer.close();
  }
};

const drop = async (
  options: DeadLetterAdminOptions,
  desk: Desk,
  selection: LetterSelection,
  change: ChangeOptions,
): Promise<DropReport> => {
  const { letters, refused, more } = await selectLetters(desk, selection, whyNotDrop);
  const { database } = options;
  const report = { letters, refused, more, releasedKeys: 0, waitingKeys: [] };
  if (isRefused(selection, refused)) return { ...report, outcome: 'refused' };
  const waitingKeys = await findWaitingKeys(database, letters);
  if (change.dryRun) return { ...report, waitingKeys, outcome: 'would-drop' };
  const dropped = await dropLetters({ desk, database }, letters, {
    who: change.who,
    chosenBy: unlessByIds(selection),
  });
  const settled = await settleKey(options, desk, selection, change);
  return { ...report, waitingKeys, outcome: 'dropped', releasedKeys: dropped + settled };
};

/** A key of which nothing is left to replay or drop may still be parked. */
const settleKey = async (
  { database, topics }: DeadLetterAdminOptions,
  desk: Desk,
  selection: LetterSelection,
  change: ChangeOptions,
): Promise<number> => {
  if (selection.by !== 'key') return 0;
  return releaseKeys({ desk, database }, keyScopeOf(topics, selection), change);
};

/** Clocks of projectors and of this process may differ by so much; what was seen before is known by its decision. */
const clocksApartMaxMs = 60_000;

const keyScopeOf = (
  topics: LetterTopics,
  { key, projection, topic }: LetterSelection & { readonly by: 'key' },
): KeyScope => ({ key, projection, topic: topic && physicalTopicOf(topics, topic) });

/** Who names letters means all of them; a filter means those that can be. */
const isRefused = ({ by }: LetterSelection, refused: readonly Refusal[]): boolean =>
  by === 'ids' && refused.length > 0;

const unlessByIds = (selection: LetterSelection): LetterSelection | undefined =>
  selection.by === 'ids' ? undefined : selection;
