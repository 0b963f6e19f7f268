import type { TopologyNode } from '../graph.ts';

/** What a table shows of a row; undefined where it shows none. */
export type RowView = (row: unknown) => unknown;

const isGone = (row: unknown): boolean => row === null || row === undefined;

export const filteredView =
  (keep: (row: never) => boolean): RowView =>
  (row) =>
    !isGone(row) && keep(row as never) ? row : undefined;

export const mappedView =
  (change: (row: never) => unknown): RowView =>
  (row) =>
    isGone(row) ? undefined : change(row as never);

/** The changes of a table as a view of it shows them: what it does not show is gone. Nothing is kept a second time. */
export const viewNode = (label: string, view: RowView): Omit<TopologyNode, 'children'> => ({
  kind: 'table-view',
  label,
  compile: (next) => (key, row, at) => next(key, view(row) ?? null, at),
});
