/** Patterns are made once: these run for every command. */
const idempotencyKeyPattern = /^(?:"([\x21\x23-\x7e]{1,255})"|([\x21\x23-\x7e]{1,255}))$/;
const correlationIdPattern = /^[\x21-\x7e]{1,255}$/;
/** One strong entity tag; versions have no leading zeros, so there is one way to write each. */
const versionTagPattern = /^"(0|[1-9]\d{0,15})"$/;
/** W3C trace context, version 00; anything else is not passed on. */
const traceparentPattern = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

type HeaderValue = string | readonly string[] | undefined;

/** The key without its quotes: "abc" and abc are the same key. */
export const parseIdempotencyKey = (value: HeaderValue): string | undefined => {
  if (typeof value !== 'string') return undefined;
  const match = idempotencyKeyPattern.exec(value);
  return match?.[1] ?? match?.[2];
};

export const parseVersionTag = (value: HeaderValue): number | undefined => {
  if (typeof value !== 'string') return undefined;
  const version = Number(versionTagPattern.exec(value)?.[1]);
  return Number.isSafeInteger(version) ? version : undefined;
};

export const versionTag = (version: number): string => `"${version}"`;

const tagsPattern = /(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g;

/** Whether If-None-Match names this tag, in whatever strength. */
export const matchesAnyTag = (value: string | undefined, tag: string): boolean =>
  value !== undefined &&
  (value.trim() === '*' || [...value.matchAll(tagsPattern)].some(([, given]) => given === tag));

const waitPattern = /(?:^|,)\s*wait\s*=\s*"?(\d{1,6})"?\s*(?:[;,]|$)/i;

/** Seconds, from RFC 7240's `Prefer: wait=5`; a preference that cannot be read is none. */
export const parsePreferredWait = (value: HeaderValue): number | undefined => {
  const seconds = waitPattern.exec(typeof value === 'string' ? value : (value ?? []).join(','))?.[1];
  return seconds === undefined ? undefined : Number(seconds);
};

export const parseCorrelationId = (value: HeaderValue): string | undefined =>
  typeof value === 'string' && correlationIdPattern.test(value) ? value : undefined;

export const parseTraceparent = (value: HeaderValue): string | null =>
  typeof value === 'string' && traceparentPattern.test(value) ? value : null;
