/** Variable-length integers and texts as Kafka's records have them, measured first and then written in place. */

/** Longer texts are faster in Node's own code, shorter ones here: the call costs more than the work. */
const shortText = 64;

/** The size of a count or length, zigzag-encoded; for what is absent Kafka writes the length −1 in one byte. */
export const sizeOfVarint = (value: number): number => {
  if (value < 0x40) return 1;
  if (value < 0x2000) return 2;
  if (value < 0x10_0000) return 3;
  if (value < 0x800_0000) return 4;
  return 5;
};

/** Answers where to go on. */
export const writeVarint = (target: Buffer, value: number, offset: number): number => {
  // Zigzag of a number that is not negative is its double; unsigned, because the double of a large one has the top bit.
  let rest = (value << 1) >>> 0;
  let at = offset;
  while (rest > 0x7f) {
    target[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[at++] = rest;
  return at;
};

export const absent = 0x01;

export const sizeOfText = (text: string): number => {
  const { length } = text;
  if (length > shortText) return Buffer.byteLength(text);
  for (let i = 0; i < length; i++) if (text.charCodeAt(i) > 0x7f) return Buffer.byteLength(text);
  return length;
};

export const writeText = (target: Buffer, text: string, offset: number, size: number): number => {
  const { length } = text;
  if (size !== length || length > shortText) target.write(text, offset, size, 'utf8');
  else for (let i = 0; i < length; i++) target[offset + i] = text.charCodeAt(i);
  return offset + size;
};

export const sizeOfBytes = (bytes: Buffer | string | null): number => {
  if (bytes === null) return 1;
  const size = typeof bytes === 'string' ? sizeOfText(bytes) : bytes.length;
  return sizeOfVarint(size) + size;
};

export const writeBytes = (target: Buffer, bytes: Buffer | string | null, offset: number): number => {
  if (bytes === null) {
    target[offset] = absent;
    return offset + 1;
  }
  if (typeof bytes === 'string') {
    const size = sizeOfText(bytes);
    return writeText(target, bytes, writeVarint(target, size, offset), size);
  }
  const at = writeVarint(target, bytes.length, offset);
  target.set(bytes, at);
  return at + bytes.length;
};

export const uuidTextSize = 36;

const hexDigits = Buffer.from('0123456789abcdef');
const hyphen = 0x2d;

/** The text of a UUID from its 16 bytes, without a string in between. */
export const writeUuidText = (
  target: Buffer,
  bytes: Buffer,
  place: { readonly from: number; readonly to: number },
): number => {
  let at = place.to;
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) target[at++] = hyphen;
    const byte = bytes[place.from + i] as number;
    target[at++] = hexDigits[byte >> 4] as number;
    target[at++] = hexDigits[byte & 0xf] as number;
  }
  return at;
};
