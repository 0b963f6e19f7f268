import { writeAudit } from '../operator-audit/write-audit.ts';
import type { Database } from '../postgres/database.ts';
import type { DeadLetter } from './dead-letter.ts';
import { letterId } from './letter-id.ts';
import { takeOffParkedKeys } from './parked-keys.ts';
import type { Desk } from './scan-letters.ts';
import type { LetterSelection } from './select-letters.ts';
import { writeDecisions } from './write-decisions.ts';

export interface Drop {
  readonly who: string;
  /** For the audit: how the letters were chosen, where it was not by their ids. */
  readonly chosenBy: LetterSelection | undefined;
}

const droppedTogetherMax = 500;

/** Gives letters up. They stay in their topic until it forgets them, and are not shown any more. Answers how many keys go on. */
export const dropLetters = async (
  { desk, database }: { desk: Desk; database: Database },
  letters: readonly DeadLetter[],
  { who, chosenBy }: Drop,
): Promise<number> => {
  let releasedKeys = 0;
  for (let start = 0; start < letters.length; start += droppedTogetherMax) {
    const some = letters.slice(start, start + droppedTogetherMax);
    releasedKeys += await database.transaction(async (tx) => {
      await writeDecisions(tx, some, { decision: 'dropped', who, replayId: null });
      const released = await takeOffParkedKeys(tx, some);
      const ids = some.map(({ place }) => letterId(desk.topics, place));
      await writeAudit(tx, { who, action: 'dead-letters.drop', target: { chosenBy, letters: ids } });
      return released;
    });
    desk.onProgress({ doing: 'dropping', done: start + some.length, total: letters.length });
  }
  return releasedKeys;
};
