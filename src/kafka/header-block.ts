import { sizeOfBytes, sizeOfVarint, uuidTextSize, writeBytes, writeVarint } from './wire-format.ts';

export type RecordHeaders = Readonly<Record<string, Buffer | string>>;

/** Headers as they are on the wire: encoded once, written into thousands of records. */
export interface HeaderBlock {
  readonly count: number;
  readonly bytes: Buffer;
  /** Whether the last header has only its name here: its value is the UUID that each record brings along. */
  readonly endsWithUuid: boolean;
}

/** For headers that many records have in common, such as the event's type and source; never for what is a record's own. */
export const encodeHeaders = (headers: RecordHeaders): HeaderBlock => {
  const bytes = Buffer.allocUnsafeSlow(sizeOfHeaders(headers));
  writeHeaders(bytes, headers, 0);
  return { count: countHeaders(headers), bytes, endsWithUuid: false };
};

/** The same with one more header, whose value is the record's own UUID as text. */
export const encodeHeadersWithUuid = (headers: RecordHeaders, uuidName: string): HeaderBlock => {
  const shared = encodeHeaders(headers);
  const bytes = Buffer.alloc(
    shared.bytes.length + sizeOfBytes(uuidName) + sizeOfVarint(uuidTextSize),
    shared.bytes,
  );
  const at = writeBytes(bytes, uuidName, shared.bytes.length);
  writeVarint(bytes, uuidTextSize, at);
  return { count: shared.count + 1, bytes, endsWithUuid: true };
};

/** The same for headers of which a name may come twice and a value may be missing. */
export const encodeHeaderEntries = (
  entries: readonly (readonly [name: string, value: Buffer | null])[],
): HeaderBlock => {
  const size = entries.reduce((sum, [name, value]) => sum + sizeOfBytes(name) + sizeOfBytes(value), 0);
  const bytes = Buffer.allocUnsafeSlow(size);
  let at = 0;
  for (const [name, value] of entries) at = writeBytes(bytes, value, writeBytes(bytes, name, at));
  return { count: entries.length, bytes, endsWithUuid: false };
};

// A for-in loop over objects of one shape allocates nothing, unlike Object.keys and Object.entries.

export const countHeaders = (headers: RecordHeaders): number => {
  let count = 0;
  for (const _ in headers) count++;
  return count;
};

export const sizeOfHeaders = (headers: RecordHeaders): number => {
  let size = 0;
  for (const name in headers) size += sizeOfBytes(name) + sizeOfBytes(headers[name] as Buffer | string);
  return size;
};

export const writeHeaders = (target: Buffer, headers: RecordHeaders, offset: number): number => {
  let at = offset;
  for (const name in headers) {
    at = writeBytes(target, name, at);
    at = writeBytes(target, headers[name] as Buffer | string, at);
  }
  return at;
};
