import type { Place, RawRecord } from './record.ts';

/** A record as it came, kept beside what a step holds of it: as JSON, so that it can become a dead letter later. */
export interface HeldBytes extends Place {
  readonly offset: number;
  readonly timestampMs: number;
  /** In base64, as all bytes here. */
  readonly key: string | null;
  readonly bytes: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

export const heldBytesOf = ({ topic, partition }: Place, raw: RawRecord): HeldBytes => {
  const headers = Object.entries(raw.headers);
  return {
    topic,
    partition,
    offset: raw.offset,
    timestampMs: raw.timestampMs,
    key: raw.key?.toString('base64') ?? null,
    bytes: raw.value?.toString('base64') ?? null,
    ...(headers.length > 0 && {
      headers: Object.fromEntries(headers.map(([name, value]) => [name, value.toString('base64')])),
    }),
  };
};

export const recordOfHeld = (held: HeldBytes): { readonly place: Place; readonly raw: RawRecord } => {
  const { topic, partition, offset, timestampMs, key, bytes, headers = {} } = held;
  const value = bytes === null ? null : Buffer.from(bytes, 'base64');
  return {
    place: { topic, partition },
    raw: {
      offset,
      timestampMs,
      key: key === null ? null : Buffer.from(key, 'base64'),
      value,
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, text]) => [name, Buffer.from(text, 'base64')]),
      ),
      replay: undefined,
      bytes: value ?? Buffer.alloc(0),
      valueStart: value ? 0 : -1,
      valueEnd: value?.length ?? -1,
    },
  };
};
