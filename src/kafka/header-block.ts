import { sizeOfBytes, writeBytes } from './wire-format.ts';

export type RecordHeaders = Readonly<Record<string, Buffer | string>>;

/** Headers as they are on the wire: encoded once, written into thousands of records. */
export interface HeaderBlock {
  readonly count: number;
  readonly bytes: Buffer;
}

/** For headers that many records have in common, such as the event's type and source; never for what is a record's own. */
export const encodeHeaders = (headers: RecordHeaders): HeaderBlock => {
  const bytes = Buffer.allocUnsafeSlow(sizeOfHeaders(headers));
  writeHeaders(bytes, headers, 0);
  return { count: countHeaders(headers), bytes };
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
