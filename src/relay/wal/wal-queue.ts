import type { OutboxRow } from '../outbox-source.ts';

/** A row's place in the log: where its transaction committed, and the how manieth row of that transaction it is. */
export interface WalPosition {
  readonly lsn: bigint;
  readonly rows: number;
}

export const isAfter = (one: WalPosition, other: WalPosition): boolean =>
  one.lsn > other.lsn || (one.lsn === other.lsn && one.rows > other.rows);

export interface QueuedRow {
  readonly row: OutboxRow;
  readonly position: WalPosition;
}

interface Entry extends QueuedRow {
  readonly bytes: number;
  /** Once this row is settled, everything committed before this position is. */
  endLsn: bigint | undefined;
}

export interface WalQueueOptions {
  readonly rowsMax: number;
  readonly bytesMax: number;
  /** Known to be settled, though the server may send it again. */
  readonly settled: WalPosition;
  /** Everything committed before has been settled and told to the server. */
  readonly confirmed: bigint;
}

/** The rows between the log and the publisher, and how far the server may be told that they are safe. */
export class WalQueue {
  readonly #options: WalQueueOptions;
  #entries: Entry[] = [];
  #head = 0;
  #bytes = 0;
  #settled: WalPosition;
  #confirmed: bigint;
  #open: { readonly lsn: bigint; rows: number } | undefined;

  constructor(options: WalQueueOptions) {
    this.#options = options;
    this.#settled = options.settled;
    this.#confirmed = options.confirmed;
  }

  get length(): number {
    return this.#entries.length - this.#head;
  }

  get isFull(): boolean {
    return this.length >= this.#options.rowsMax || this.#bytes >= this.#options.bytesMax;
  }

  /** Well below full, so that the socket is not stopped and started for every row. */
  get hasRoom(): boolean {
    return this.length <= this.#options.rowsMax / 2 && this.#bytes <= this.#options.bytesMax / 2;
  }

  get settled(): WalPosition {
    return this.#settled;
  }

  /** Every transaction committed before this position is settled. */
  get confirmed(): bigint {
    return this.#confirmed;
  }

  begin(commitLsn: bigint): void {
    this.#open = { lsn: commitLsn, rows: 0 };
  }

  insert(row: OutboxRow): void {
    if (!this.#open) throw new Error('A row came outside of a transaction');
    this.#open.rows += 1;
    const position = { lsn: this.#open.lsn, rows: this.#open.rows };
    if (!isAfter(position, this.#settled)) return;
    const bytes = bytesOf(row);
    this.#bytes += bytes;
    this.#entries.push({ row, position, bytes, endLsn: undefined });
  }

  commit(endLsn: bigint): void {
    this.#open = undefined;
    this.#reached(endLsn);
  }

  /** The server has nothing more to send from before this position. */
  keepalive(lsn: bigint): void {
    // In the middle of a transaction the position may lie behind its commit, while rows of it are still to come.
    if (!this.#open) this.#reached(lsn);
  }

  #reached(lsn: bigint): void {
    const last = this.#entries.at(-1);
    if (this.length > 0 && last) last.endLsn = lsn;
    else if (lsn > this.#confirmed) this.#confirmed = lsn;
  }

  /** The first rows, or the first behind a position; they stay until they are settled. */
  peek(rowsMax: number, behind?: WalPosition): readonly QueuedRow[] {
    const start = behind ? this.#firstBehind(behind) : this.#head;
    return this.#entries.slice(start, start + rowsMax);
  }

  #firstBehind(position: WalPosition): number {
    let [low, high] = [this.#head, this.#entries.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const entry = this.#entries[middle];
      if (entry && isAfter(entry.position, position)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Passes every row up to the position, those too that are still to come a second time. */
  settle(position: WalPosition): void {
    if (!isAfter(position, this.#settled)) return;
    this.#settled = position;
    for (let entry = this.#entries[this.#head]; entry; entry = this.#entries[this.#head]) {
      if (isAfter(entry.position, position)) break;
      this.#head += 1;
      this.#bytes -= entry.bytes;
      if (entry.endLsn !== undefined && entry.endLsn > this.#confirmed) this.#confirmed = entry.endLsn;
    }
    this.#compact();
  }

  #compact(): void {
    if (this.#head < this.#entries.length / 2) return;
    this.#entries = this.#entries.slice(this.#head);
    this.#head = 0;
  }
}

/** The objects around a row weigh about as much as a small payload. */
const rowOverheadBytes = 1000;
const bytesOf = (row: OutboxRow): number => row.payload.length + rowOverheadBytes;
