import { readInt64 } from './batch-layout.ts';

/**
 * Fields as Kafka's flexible versions have them: lengths are unsigned varints, one larger than what they count so that 0 is
 * nothing, and every structure ends with fields that have tags. kafkajs 2.2 speaks the versions before those.
 */
export class FlexibleReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  skip(size: number): number {
    const at = this.#at;
    this.#at += size;
    return at;
  }

  int16(): number {
    return this.#bytes.readInt16BE(this.skip(2));
  }

  int32(): number {
    return this.#bytes.readInt32BE(this.skip(4));
  }

  int64(): number {
    return readInt64(this.#bytes, this.skip(8));
  }

  uvarint(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 0x80) {
      const byte = this.#bytes.readUInt8(this.skip(1));
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
  }

  /** How much follows; nothing and none are the same here. */
  length(): number {
    return Math.max(0, this.uvarint() - 1);
  }

  bytes(): Buffer {
    const size = this.length();
    const start = this.skip(size);
    return this.#bytes.subarray(start, start + size);
  }

  text(): string {
    return this.bytes().toString('utf8');
  }

  uuid(): string {
    const start = this.skip(16);
    return uuidOf(this.#bytes.subarray(start, start + 16));
  }

  list<T>(read: () => T): T[] {
    return Array.from({ length: this.length() }, read);
  }

  /** Hands over those whose tags are known here, and passes over the rest. */
  tags(known: (tag: number, value: FlexibleReader) => void = () => {}): void {
    for (let left = this.uvarint(); left > 0; left--) {
      const tag = this.uvarint();
      const size = this.uvarint();
      const start = this.skip(size);
      known(tag, new FlexibleReader(this.#bytes.subarray(start, start + size)));
    }
  }
}

export class FlexibleWriter {
  readonly #parts: Buffer[] = [];

  get bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }

  #add(size: number, write: (part: Buffer) => void): this {
    const part = Buffer.alloc(size);
    write(part);
    this.#parts.push(part);
    return this;
  }

  int8(value: number): this {
    return this.#add(1, (part) => part.writeInt8(value));
  }

  int16(value: number): this {
    return this.#add(2, (part) => part.writeInt16BE(value));
  }

  int32(value: number): this {
    return this.#add(4, (part) => part.writeInt32BE(value));
  }

  int64(value: number | string): this {
    return this.#add(8, (part) => part.writeBigInt64BE(BigInt(value)));
  }

  uvarint(value: number): this {
    const bytes: number[] = [];
    let rest = value;
    for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
    this.#parts.push(Buffer.from([...bytes, rest]));
    return this;
  }

  byteField(value: Buffer): this {
    this.uvarint(value.length + 1);
    this.#parts.push(value);
    return this;
  }

  text(value: string): this {
    return this.byteField(Buffer.from(value));
  }

  uuid(value: string): this {
    this.#parts.push(Buffer.from(value.replaceAll('-', ''), 'hex'));
    return this;
  }

  list<T>(values: readonly T[], write: (value: T) => void): this {
    this.uvarint(values.length + 1);
    for (const value of values) write(value);
    return this;
  }

  noTags(): this {
    return this.uvarint(0);
  }
}

export const noUuid = '00000000-0000-0000-0000-000000000000';

const uuidOf = (bytes: Buffer): string =>
  bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

/** What kafkajs takes for a request's content; a flexible request's header ends with tags, which kafkajs does not write. */
export const flexibleRequest = (body: FlexibleWriter): { readonly buf: Buffer; readonly buffer: Buffer } => {
  const bytes = Buffer.concat([new FlexibleWriter().noTags().bytes, body.bytes]);
  return { buf: bytes, buffer: bytes };
};

/** The content of a flexible answer, behind the tags of its header. */
export const flexibleAnswer = (bytes: Buffer): FlexibleReader => {
  const reader = new FlexibleReader(bytes);
  reader.tags();
  return reader;
};
