import type { PlaceInput } from './compute-batch.ts';

/** By places first, then by records; undefined when there is only one record. */
export const halve = (
  inputs: readonly PlaceInput[],
): readonly [readonly PlaceInput[], readonly PlaceInput[]] | undefined => {
  const [only] = inputs;
  if (inputs.length > 1) {
    const middle = Math.ceil(inputs.length / 2);
    return [inputs.slice(0, middle), inputs.slice(middle)];
  }
  if (!only || only.records.length < 2) return undefined;
  const middle = Math.ceil(only.records.length / 2);
  const nextOffset = only.records[middle]?.raw.offset ?? only.nextOffset;
  return [
    [{ ...only, records: only.records.slice(0, middle), nextOffset }],
    [{ ...only, records: only.records.slice(middle) }],
  ];
};
