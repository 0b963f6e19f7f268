/** Where a page ends: the value it is sorted by and the id that tells equal values apart. */
export interface Position<Value> {
  readonly value: Value;
  readonly id: string;
}

export type Direction = 'asc' | 'desc';

export interface Page<Item, Value> {
  readonly items: readonly Item[];
  /** Where the next page goes on; null when this was the last. */
  readonly next: Position<Value> | null;
}

/** One row more than asked for tells whether there is another page. */
export const pageOf = <Item, Value>(
  rows: readonly Item[],
  limit: number,
  positionOf: (item: Item) => Position<Value>,
): Page<Item, Value> => {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, next: rows.length > limit && last !== undefined ? positionOf(last) : null };
};
