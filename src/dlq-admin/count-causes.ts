import { isOpen } from './decision.ts';
import type { LetterPlace } from './letter-id.ts';
import { topicNameOf } from './letter-id.ts';
import type { ListRequest } from './list-letters.ts';
import { messageShape } from './message-shape.ts';
import { type Desk, scanLetters } from './scan-letters.ts';

/** Letters that went wrong in the same way. */
export interface Cause {
  readonly topic: string;
  readonly projection: string | null;
  readonly exception: string;
  /** What their messages have in common. */
  readonly message: string;
  readonly letters: number;
  readonly oldestAt: Date;
  readonly newestAt: Date;
  /** One of them, to look at. */
  readonly example: LetterPlace;
}

export interface LetterStats {
  readonly letters: number;
  readonly oldestAt: Date | null;
  /** The commonest first. */
  readonly causes: readonly Cause[];
}

/** More causes than anybody reads; what comes after them is counted together. */
const causesMax = 1000;
const others = { exception: 'others', message: 'more causes than are told apart here' };

export const countCauses = async (desk: Desk, request: Omit<ListRequest, 'limit'>): Promise<LetterStats> => {
  const causes = new Map<string, { -readonly [Field in keyof Cause]: Cause[Field] }>();
  for await (const some of scanLetters(desk, request)) {
    for (const judged of some) {
      if (!request.all && !isOpen(judged)) continue;
      const { place, projection, exception, message, failedAt } = judged.letter;
      const topic = topicNameOf(desk.topics, place.topic) ?? place.topic;
      const told = { topic, projection, exception, message: messageShape(message) };
      const known = JSON.stringify(Object.values(told));
      const isNew = !causes.has(known) && causes.size >= causesMax;
      const counted = isNew ? { ...told, ...others } : told;
      const id = isNew ? JSON.stringify(Object.values(counted)) : known;
      const cause = causes.get(id) ?? {
        ...counted,
        letters: 0,
        oldestAt: failedAt,
        newestAt: failedAt,
        example: place,
      };
      cause.letters++;
      if (failedAt < cause.oldestAt) cause.oldestAt = failedAt;
      if (failedAt > cause.newestAt) cause.newestAt = failedAt;
      causes.set(id, cause);
    }
  }
  const all = [...causes.values()].sort((a, b) => b.letters - a.letters);
  return {
    letters: all.reduce((sum, { letters }) => sum + letters, 0),
    oldestAt: all.reduce<Date | null>(
      (oldest, { oldestAt }) => (oldest && oldest < oldestAt ? oldest : oldestAt),
      null,
    ),
    causes: all,
  };
};
