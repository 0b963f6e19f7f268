/** Rows as PostgreSQL sends them in binary: columns one after the other, each after its length in four bytes, −1 for null. */
export interface BinaryRows {
  readonly bytes: Buffer;
  /** For each row, where the length of its first column stands. */
  readonly starts: readonly number[];
  /** Whether there may be more rows than fit into the bytes that were asked for; they have to be asked for again. */
  readonly isCut: boolean;
}

const dataRow = 0x44;
/** A letter for its kind, then its length, which counts itself. */
const messageHeadBytes = 5;
/** Between a row's message head and its first column stands the number of columns. */
const rowHeadBytes = messageHeadBytes + 2;
const capacityMin = 16 * 1024;

/**
 * Takes the rows out of the bytes that a server sends and keeps them together, in one buffer. Everything else, such as the
 * word that the rows are complete, is passed on.
 */
export class BinaryRowCollector {
  readonly #passOn: (message: Buffer) => void;
  readonly #bytesMax: number;
  readonly #starts: number[] = [];
  #bytes: Buffer;
  /** Up to where there are bytes, up to where they have been looked at, and up to where they stay. */
  #filled = 0;
  #seen = 0;
  #kept = 0;
  #isCut = false;
  #rowsSeen = 0;
  #bytesDropped = 0;

  constructor(options: { bytesExpected: number; bytesMax: number; passOn: (message: Buffer) => void }) {
    this.#passOn = options.passOn;
    this.#bytesMax = options.bytesMax;
    this.#bytes = Buffer.allocUnsafeSlow(Math.max(capacityMin, options.bytesExpected));
  }

  get rows(): BinaryRows {
    return { bytes: this.#bytes.subarray(0, this.#kept), starts: this.#starts, isCut: this.#isCut };
  }

  /** How many rows have come, and how much that was, with those that are not kept. */
  get received(): { readonly rows: number; readonly bytes: number } {
    return { rows: this.#rowsSeen, bytes: this.#seen + this.#bytesDropped };
  }

  /** What has come in vain, or is on its way to that. Without a row nothing is in vain. */
  get wastedBytes(): number {
    return this.#starts.length === 0 ? 0 : this.#bytesDropped + this.#filled - this.#kept;
  }

  /** What has come of a message that is not complete yet. */
  get rest(): Buffer {
    return Buffer.from(this.#bytes.subarray(this.#seen, this.#filled));
  }

  take(chunk: Buffer): void {
    this.#reserve(chunk.length);
    chunk.copy(this.#bytes, this.#filled);
    this.#filled += chunk.length;
    while (this.#filled - this.#seen >= messageHeadBytes) {
      const next = this.#seen + 1 + this.#bytes.readInt32BE(this.#seen + 1);
      if (next > this.#filled) break;
      this.#look(this.#seen, next);
      this.#seen = next;
      if (!this.#isCut) this.#kept = next;
    }
    if (this.#seen > this.#kept) this.#drop();
  }

  #look(at: number, end: number): void {
    if (this.#bytes[at] !== dataRow) {
      // A copy, because whoever gets it may keep it longer than these bytes stay in place.
      this.#passOn(Buffer.from(this.#bytes.subarray(at, end)));
      return;
    }
    this.#rowsSeen += 1;
    // One row is always taken, however large: without it nobody would ever get further.
    if (this.#starts.length > 0 && end > this.#bytesMax) this.#isCut = true;
    if (!this.#isCut) this.#starts.push(at + rowHeadBytes);
  }

  /** Rows that are too many are not kept: memory does not grow with what somebody wrote. */
  #drop(): void {
    this.#bytes.copyWithin(this.#kept, this.#seen, this.#filled);
    this.#bytesDropped += this.#seen - this.#kept;
    this.#filled -= this.#seen - this.#kept;
    this.#seen = this.#kept;
  }

  #reserve(more: number): void {
    if (this.#filled + more <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#filled + more, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#filled);
    this.#bytes = larger;
  }
}
