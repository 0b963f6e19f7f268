import type { LetterStats } from './count-causes.ts';
import type { DeadLetter } from './dead-letter.ts';
import { type Decision, type JudgedLetter, stateOf } from './decision.ts';
import type { DropReport, ReplayReport } from './dlq-admin.ts';
import { type LetterTopics, letterId, topicNameOf } from './letter-id.ts';
import type { LetterList } from './list-letters.ts';
import type { Refusal } from './refusal.ts';
import type { ShownLetter } from './show-letter.ts';

// What the command line prints as JSON and what HTTP answers: the same, so that one can be learnt from the other.

/** Bytes of a value that nobody can read, as far as they are of use. */
const hexBytesMax = 4096;

const decisionAnswer = ({ decidedAt, doneAt, ...decision }: Decision) => ({
  ...decision,
  decidedAt: decidedAt.toISOString(),
  doneAt: doneAt?.toISOString() ?? null,
});

const letterAnswer = (topics: LetterTopics, { place, failedAt, ...letter }: DeadLetter) => ({
  id: letterId(topics, place),
  topic: topicNameOf(topics, place.topic) ?? place.topic,
  ...letter,
  failedAt: failedAt.toISOString(),
});

const judgedAnswer = (topics: LetterTopics, { letter, decision }: JudgedLetter) => ({
  ...letterAnswer(topics, letter),
  state: stateOf(decision),
  decision: decision ? decisionAnswer(decision) : null,
});
export type LetterAnswer = ReturnType<typeof judgedAnswer>;

export const listAnswer = (topics: LetterTopics, { letters, more }: LetterList) => ({
  letters: letters.map((letter) => judgedAnswer(topics, letter)),
  more,
});

export const statsAnswer = (topics: LetterTopics, { letters, oldestAt, causes }: LetterStats) => ({
  letters,
  oldestAt: oldestAt?.toISOString() ?? null,
  causes: causes.map(({ example, ...cause }) => ({
    ...cause,
    oldestAt: cause.oldestAt.toISOString(),
    newestAt: cause.newestAt.toISOString(),
    example: letterId(topics, example),
  })),
});
export type StatsAnswer = ReturnType<typeof statsAnswer>;

type ValueAnswer =
  | { readonly envelope: Record<string, unknown> }
  | { readonly unreadable: string; readonly hex: string; readonly isCut: boolean }
  | null;

const valueAnswer = (value: ShownLetter['value']): ValueAnswer => {
  if (value === null) return null;
  if ('envelope' in value) return { envelope: { ...value.envelope } };
  const { unreadable, bytes } = value;
  const hex = bytes.toString('hex', 0, hexBytesMax);
  return { unreadable, hex, isCut: bytes.length > hexBytesMax };
};

export const shownAnswer = (topics: LetterTopics, shown: ShownLetter) => ({
  ...judgedAnswer(topics, shown),
  message: shown.message,
  stack: shown.stack,
  isParked: shown.isParked,
  headers: [...shown.headers],
  value: valueAnswer(shown.value),
  history: shown.history.map(decisionAnswer),
});
export type ShownAnswer = ReturnType<typeof shownAnswer>;

export const refusalAnswer = (topics: LetterTopics, { examples, topic, ...refusal }: Refusal) => ({
  ...refusal,
  topic: topic && (topicNameOf(topics, topic) ?? topic),
  examples: examples.map((place) => letterId(topics, place)),
});
export type RefusalAnswer = ReturnType<typeof refusalAnswer>;

const changedAnswer = (topics: LetterTopics, { letters, refused, more }: ReplayReport | DropReport) => ({
  letters: letters.map((letter) => letterAnswer(topics, letter)),
  refused: refused.map((refusal) => refusalAnswer(topics, refusal)),
  more,
});

export const replayAnswer = (topics: LetterTopics, report: ReplayReport) => ({
  outcome: report.outcome,
  replayId: report.replayId,
  rounds: report.rounds,
  stillParked: report.stillParked,
  releasedKeys: report.releasedKeys,
  ...changedAnswer(topics, report),
});
export type ReplayAnswer = ReturnType<typeof replayAnswer>;

export const dropAnswer = (topics: LetterTopics, report: DropReport) => ({
  outcome: report.outcome,
  releasedKeys: report.releasedKeys,
  waitingKeys: [...report.waitingKeys],
  ...changedAnswer(topics, report),
});
export type DropAnswer = ReturnType<typeof dropAnswer>;
