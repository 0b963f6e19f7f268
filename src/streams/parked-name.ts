import { hash } from 'node:crypto';

/** Longer names do not fit into an index together with what else is in it. */
const bytesMax = 500;
const shownCharacters = 60;

/**
 * The name under which a key is parked. A key may be any text, and a store may not keep it: one with a zero byte, or one too
 * long for an index, is known by its beginning and a hash.
 */
export const parkedName = (key: string): string => {
  if (!key.includes('\0') && Buffer.byteLength(key) <= bytesMax) return key;
  return `${storableText(key.slice(0, shownCharacters))}… sha256:${hash('sha256', key)}`;
};

/** PostgreSQL's texts hold every character but one. */
export const storableText = (text: string): string => text.replaceAll('\0', '\uFFFD');
