/**
 * How far a client has heard: everything that was committed in a snapshot of one database. Ids of changes would not do: they
 * are given out before the commit, and a higher one may well become visible first.
 */
export interface LivePosition {
  readonly system: string;
  readonly snapshot: string;
}

/** Clients send it back in a header, and so do proxies. */
const textMax = 1500;
const positionPattern = /^(\d{1,20})-(\d{1,18}):(\d{1,18}):(\d{1,18}(?:,\d{1,18})*)?$/;

export const writePosition = ({ system, snapshot }: LivePosition): string => {
  const text = `${system}-${snapshot}`;
  if (text.length <= textMax) return text;
  // As of before everything that was under way: some things are told twice, none is left out.
  const [xmin] = snapshot.split(':');
  return `${system}-${xmin}:${xmin}:`;
};

/** Undefined for what no process of this kind has written. */
export const readPosition = (text: string): LivePosition | undefined => {
  const match = text.length <= textMax ? positionPattern.exec(text) : null;
  if (!match) return undefined;
  const [, system = '', xmin = '', xmax = '', open = ''] = match;
  const bounds = [BigInt(xmin), BigInt(xmax)] as const;
  const ids = open === '' ? [] : open.split(',').map(BigInt);
  const isOrdered = ids.every(
    (id, index) => id >= bounds[0] && id < bounds[1] && (index === 0 || id > (ids[index - 1] ?? 0n)),
  );
  if (bounds[0] < 1n || bounds[0] > bounds[1] || !isOrdered) return undefined;
  return { system, snapshot: `${bounds[0]}:${bounds[1]}:${ids.join(',')}` };
};
