import type { ComputedBatch } from './compute-batch.ts';
import type { BegunAnew } from './ports.ts';

/** The places that a batch lets begin anew, because their logs are not the ones that were read. */
export const begunAnewBy = ({ inputs, tails }: ComputedBatch): readonly BegunAnew[] =>
  inputs.flatMap(({ owned, logBreak, fromOffset = 0, nextOffset: offset }) => {
    if (!logBreak) return [];
    const { streamTimeMs } = tails.get(owned)?.before ?? owned.tail;
    return [{ ...owned.place, logBreak, offsetBefore: fromOffset, offset, streamTimeMs }];
  });
