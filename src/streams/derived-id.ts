import { hash } from 'node:crypto';

/**
 * The id of an event that a step derives: the same each time it is derived from the same source event, so that deriving it
 * again counts for nothing. It keeps the source's time, which the first 48 bits of a UUIDv7 are.
 */
export const derivedId = (sourceId: string, step: string, index: number): string => {
  const digest = hash('sha256', `${sourceId}|${step}|${index}`, 'hex');
  const time = sourceId.slice(0, 13);
  const variant = ((Number.parseInt(digest.slice(3, 4), 16) & 0x3) | 0x8).toString(16);
  return `${time}-7${digest.slice(0, 3)}-${variant}${digest.slice(4, 7)}-${digest.slice(7, 19)}`;
};

/** An id for what happens at a time of its own, as the end of a window does. */
export const idAt = (timeMs: number, what: string): string => {
  const time = Math.max(0, Math.floor(timeMs)).toString(16).padStart(12, '0').slice(-12);
  return derivedId(`${time.slice(0, 8)}-${time.slice(8)}`, what, 0);
};
