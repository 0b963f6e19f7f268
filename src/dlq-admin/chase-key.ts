import { setTimeout as pause } from 'node:timers/promises';
import type { SqlRunner } from '../postgres/database.ts';
import { type DeadLetter, letterIdentity } from './dead-letter.ts';
import { findParkedKeys, type KeyScope } from './release-keys.ts';

/** How long nothing may move before it is given up; what is left can be replayed when the projection runs. */
const patienceMs = 5000;
/** A key whose records come faster than they can be brought back does not keep an operator waiting for ever. */
const chaseMaxMs = 30_000;
const lookEveryMs = 50;

export interface Chase {
  readonly database: SqlRunner;
  readonly scope: KeyScope;
  /** What was replayed so far, and as what. */
  readonly replayId: string;
  readonly letters: readonly DeadLetter[];
  /** Letters of the key that are open now. */
  readonly findOpen: () => Promise<readonly DeadLetter[]>;
  readonly replay: (letters: readonly DeadLetter[]) => Promise<void>;
}

export interface Chased {
  /** All that was replayed. */
  readonly letters: readonly DeadLetter[];
  readonly rounds: number;
  /** Places where the key is parked still. */
  readonly parked: number;
}

/**
 * While the letters of a key are on their way, further records of it come and are parked behind them: they are replayed as
 * well, until the key is not parked any more. Ends early when a record fails again, or nothing moves.
 */
export const chaseKey = async (chase: Chase): Promise<Chased> => {
  const { database, scope, replayId, findOpen, replay } = chase;
  const letters = [...chase.letters];
  const sent = new Set(letters.map(recordIdentity));
  const startedMs = Date.now();
  let [rounds, movedMs, mark] = [1, startedMs, ''];
  for (;;) {
    const parked = await findParkedKeys(database, scope);
    const end = { letters, rounds, parked: parked.length };
    if (parked.length === 0 || parked.some(({ brokenReplay }) => brokenReplay === replayId)) return end;
    const open = await findOpen();
    // One that has come back has failed again, or stands behind one that has.
    if (open.some((letter) => sent.has(recordIdentity(letter)))) return end;
    const nowMs = Date.now();
    if (nowMs - startedMs > chaseMaxMs) return end;
    if (open.length > 0) {
      await replay(open);
      letters.push(...open);
      for (const letter of open) sent.add(recordIdentity(letter));
      [rounds, movedMs] = [rounds + 1, Date.now()];
      continue;
    }
    const now = JSON.stringify(parked);
    if (now !== mark) [mark, movedMs] = [now, nowMs];
    else if (nowMs - movedMs > patienceMs) return end;
    await pause(lookEveryMs);
  }
};

/** However often it was replayed. */
const recordIdentity = (letter: DeadLetter): string => letterIdentity({ ...letter, replays: 0 });
