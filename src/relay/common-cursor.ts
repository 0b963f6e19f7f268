import type { OutboxCursor } from './outbox-cursor.ts';

interface Snapshot {
  /** Transactions from here on are not visible. */
  readonly xmax: bigint;
  /** Of those below, the ones that were under way. */
  readonly xip: readonly bigint[];
}

const parse = (text: string): Snapshot => {
  const [xmin, xmax, xip] = text.split(':');
  if (!xmin || !xmax || xip === undefined) throw new Error(`"${text}" is not a snapshot`);
  return { xmax: BigInt(xmax), xip: xip === '' ? [] : xip.split(',').map(BigInt) };
};

/** Exactly what is visible in all of them. As all of them show causes with their effects, so does this. */
export const intersectSnapshots = (snapshots: readonly string[]): string => {
  const all = snapshots.map(parse);
  const [first, ...rest] = all;
  if (!first) throw new RangeError('Nothing is common to no snapshots');
  const xmax = rest.reduce((least, { xmax: other }) => (other < least ? other : least), first.xmax);
  const xip = [...new Set(all.flatMap((snapshot) => snapshot.xip))]
    .filter((id) => id < xmax)
    .toSorted((a, b) => (a < b ? -1 : 1));
  return `${xip[0] ?? xmax}:${xmax}:${xip.join()}`;
};

/**
 * The latest position that none of the cursors has yet to reach: what it has passed, each of them has passed. Cursors in
 * the middle of a delta have passed its rows up to their last id only; the others have passed all of theirs.
 */
export const commonCursor = (cursors: readonly OutboxCursor[]): OutboxCursor => {
  const from = intersectSnapshots(cursors.map((cursor) => cursor.from));
  const restored = cursors.map(({ restoredLastId }) => restoredLastId).filter((id) => id !== undefined);
  const ofDump = restored.length > 0 && { restoredLastId: Math.min(...restored) };
  const underWay = cursors.filter((cursor) => cursor.from !== cursor.to);
  if (underWay.length === 0) return { from, to: from, lastId: 0, ...ofDump };
  const to = intersectSnapshots(cursors.map((cursor) => cursor.to));
  return { from, to, lastId: Math.min(...underWay.map(({ lastId }) => lastId)), ...ofDump };
};
