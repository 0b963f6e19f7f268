/**
 * Reads Kafka's variable-length integers one after the other. It never fails: past the end it reads zeros, and an integer
 * that is longer than any puts it past the end. Whoever reads looks afterwards where it stands.
 */
export class WireReader {
  readonly bytes: Buffer;
  at: number;

  constructor(bytes: Buffer, at: number) {
    this.bytes = bytes;
    this.at = at;
  }

  varint(): number {
    const { bytes } = this;
    let at = this.at;
    let byte = bytes[at++] as number;
    let raw = byte & 0x7f;
    for (let shift = 7; byte > 0x7f; shift += 7) {
      if (shift > 28) return this.#lost();
      byte = bytes[at++] as number;
      raw |= (byte & 0x7f) << shift;
    }
    this.at = at;
    return (raw >>> 1) ^ -(raw & 1);
  }

  /** Exact up to 2^53, which no difference of two timestamps comes near. */
  varlong(): number {
    const { bytes } = this;
    let at = this.at;
    let byte = bytes[at++] as number;
    let raw = byte & 0x7f;
    for (let factor = 0x80, count = 1; byte > 0x7f; factor *= 0x80, count++) {
      if (count === 10) return this.#lost();
      byte = bytes[at++] as number;
      raw += (byte & 0x7f) * factor;
    }
    this.at = at;
    return raw % 2 === 0 ? raw / 2 : -(raw + 1) / 2;
  }

  #lost(): number {
    this.at = this.bytes.length + 1;
    return 0;
  }
}
