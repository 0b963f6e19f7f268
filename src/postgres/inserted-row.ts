import type { Pgoutput } from 'pg-logical-replication';

const postgresEpochMs = 946_684_800_000;
const isNull = -1;
const nullKind = 0x6e;
const binaryKind = 0x62;
/** Tag, relation id, the letter N and the number of columns. */
const headBytes = 1 + 4 + 1 + 2;

/**
 * An insert as pgoutput writes it, in binary. One object reads row after row, and makes nothing but what it is asked for:
 * the library's own reader makes sixteen buffers and a dictionary for every row.
 */
export class InsertedRow {
  readonly #columnAt: ReadonlyMap<string, number>;
  readonly #starts: number[];
  readonly #ends: number[];
  #message: Buffer = Buffer.alloc(0);

  constructor(relation: Pgoutput.MessageRelation) {
    this.#columnAt = new Map(relation.columns.map(({ name }, index) => [name, index]));
    this.#starts = relation.columns.map(() => isNull);
    this.#ends = relation.columns.map(() => isNull);
  }

  /** Moves on to another row; the message must not change afterwards. */
  read(message: Buffer): this {
    const columns = message.readInt16BE(headBytes - 2);
    if (columns !== this.#starts.length)
      throw new Error('An insert does not have the columns of its relation');
    let at = headBytes;
    for (let column = 0; column < columns; column++) {
      const kind = message[at];
      at += 1;
      if (kind === nullKind) {
        this.#starts[column] = isNull;
        continue;
      }
      if (kind !== binaryKind) throw new Error(`An insert has a column of the kind ${kind}`);
      const start = at + 4;
      at = start + message.readInt32BE(at);
      this.#starts[column] = start;
      this.#ends[column] = at;
    }
    if (at > message.length) throw new Error('An insert ends before its last column does');
    this.#message = message;
    return this;
  }

  #find(name: string): number {
    const column = this.#columnAt.get(name);
    const start = column === undefined ? isNull : (this.#starts[column] ?? isNull);
    if (start === isNull) throw new Error(`The log carries a row without ${name}`);
    return start;
  }

  #endOf(name: string): number {
    return this.#ends[this.#columnAt.get(name) ?? 0] ?? 0;
  }

  isNull(name: string): boolean {
    const column = this.#columnAt.get(name);
    return column === undefined || this.#starts[column] === isNull;
  }

  text(name: string): string {
    return this.#message.toString('utf8', this.#find(name), this.#endOf(name));
  }

  bytes(name: string): Buffer {
    return this.#message.subarray(this.#find(name), this.#endOf(name));
  }

  int4(name: string): number {
    return this.#message.readInt32BE(this.#find(name));
  }

  /** Far below 2^53 here, with a guard. */
  int8(name: string): number {
    const start = this.#find(name);
    const value = this.#message.readInt32BE(start) * 0x1_0000_0000 + this.#message.readUInt32BE(start + 4);
    if (!Number.isSafeInteger(value)) throw new RangeError(`${name} does not fit into a safe integer`);
    return value;
  }

  uuid(name: string): string {
    const start = this.#find(name);
    const hex = this.#message.toString('hex', start, start + 16);
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }

  timestamp(name: string): Date {
    return new Date(postgresEpochMs + Math.floor(this.int8(name) / 1000));
  }
}
