import type { Lane, QuietPlaces, Round } from './lane.ts';
import type { DecodedBatch } from './record.ts';

/** How often windows get the chance to close by the wall clock, whether or not other partitions are busy. */
export const tickEveryMs = 1000;

export interface TurnOptions {
  readonly lane: Pick<Lane, 'compute' | 'tick'>;
  readonly clock: () => number;
}

/** What was read at once, and where nothing was left to read then: what is read after that is still to come. */
export interface Reading {
  readonly batches: readonly DecodedBatch[];
  readonly quiet: QuietPlaces;
}

/** What a projection does with what was read, and when it looks at the wall clock: after a quiet while, and every now and then. */
export const createTurn = ({ lane, clock }: TurnOptions) => {
  let tickedMs = clock();
  return async ({ batches, quiet }: Reading): Promise<readonly Round[]> => {
    const round = batches.length > 0 ? await lane.compute(batches) : undefined;
    const rounds = round ? [round] : [];
    if (batches.length > 0 && clock() - tickedMs < tickEveryMs) return rounds;
    tickedMs = clock();
    const tick = await lane.tick(quiet);
    return tick ? [...rounds, tick] : rounds;
  };
};
