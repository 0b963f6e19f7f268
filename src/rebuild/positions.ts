import { placeText } from '../streams/record.ts';
import type { PlaceOffset } from './topic-source.ts';

const byPlace = (positions: readonly PlaceOffset[]): ReadonlyMap<string, number> =>
  new Map(positions.map((position) => [placeText(position), position.offset]));

/** How many records lie between two positions, over all places of the second. */
export const recordsBetween = (from: readonly PlaceOffset[], to: readonly PlaceOffset[]): number => {
  const before = byPlace(from);
  return to.reduce((sum, place) => sum + Math.max(0, place.offset - (before.get(placeText(place)) ?? 0)), 0);
};

/** Whether the first position is nowhere before the second. */
export const hasReached = (position: readonly PlaceOffset[], goal: readonly PlaceOffset[]): boolean =>
  recordsBetween(position, goal) === 0;
