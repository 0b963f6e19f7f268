import { hash } from 'node:crypto';

/** What the hash is taken over: requestId | eventType | payload. */
const separator = '|';

/** Proof that a row is what the command wrote; verified before it is published. */
export const contentHash = (event: { requestId: string; eventType: string; payload: Buffer }): Buffer =>
  hash(
    'sha256',
    Buffer.concat([
      Buffer.from(`${event.requestId}${separator}${event.eventType}${separator}`),
      event.payload,
    ]),
    'buffer',
  );

const separatorByte = separator.charCodeAt(0);
const regionBytesMin = 64 * 1024;

/**
 * Verifies rows whose parts stand in one buffer, one after the other: copied together and hashed in one call. The hash is
 * asked for as a text because making a buffer of it takes twice as long as the hash itself.
 */
export class ContentVerifier {
  #region = Buffer.allocUnsafeSlow(regionBytesMin);
  #end = 0;
  /** The part of the region that was hashed last: rows often have the same size. */
  #hashed = this.#region;

  begin(): void {
    this.#end = 0;
  }

  /** Bytes of the row, from `start` to `end`. */
  add(bytes: Buffer, start: number, end: number): void {
    if (this.#end + end - start >= this.#region.length) this.#enlarge(end - start);
    this.#end += bytes.copy(this.#region, this.#end, start, end);
  }

  separate(): void {
    this.#region[this.#end++] = separatorByte;
  }

  /** Whether what was added has the hash that stands there. */
  matches(bytes: Buffer, hashStart: number): boolean {
    if (this.#hashed.length !== this.#end) this.#hashed = this.#region.subarray(0, this.#end);
    const digest = hash('sha256', this.#hashed, 'binary');
    for (let i = 0; i < 32; i++) if (digest.charCodeAt(i) !== bytes[hashStart + i]) return false;
    return true;
  }

  #enlarge(more: number): void {
    const larger = Buffer.allocUnsafeSlow((this.#end + more) * 2);
    this.#region.copy(larger, 0, 0, this.#end);
    this.#region = larger;
    this.#hashed = larger;
  }
}
