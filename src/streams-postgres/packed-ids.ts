import { RefusedData } from '../streams/ports.ts';

const idBytes = 16;
const textLength = 36;
const dash = 0x2d;
/** Where the two digits of each byte stand in a UUID's text. */
const digitAt = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
const dashAt = [8, 13, 18, 23];

const digits = Buffer.from('0123456789abcdef', 'latin1');
/** 16 and more for what is no digit. */
const valueOfDigit = Uint8Array.from({ length: 128 }, (_, code) => {
  const value = Number.parseInt(String.fromCharCode(code), 16);
  return Number.isNaN(value) ? 0xff : value;
});

/** UUIDs side by side, 16 bytes each. */
export const packIds = (lists: readonly (readonly string[])[]): Buffer => {
  const packed = Buffer.allocUnsafe(lists.reduce((sum, { length }) => sum + length * idBytes, 0));
  let end = 0;
  for (const ids of lists) {
    for (const id of ids) {
      packId(id, packed, end);
      end += idBytes;
    }
  }
  return packed;
};

const packId = (id: string, into: Buffer, start: number): void => {
  let strange = id.length === textLength ? 0 : 1;
  for (let byte = 0; byte < idBytes; byte++) {
    const at = digitAt[byte] ?? 0;
    const high = valueOfDigit[id.charCodeAt(at)] ?? 0xff;
    const low = valueOfDigit[id.charCodeAt(at + 1)] ?? 0xff;
    strange |= (high | low) & 0xf0;
    into[start + byte] = (high << 4) | low;
  }
  for (const at of dashAt) strange |= id.charCodeAt(at) ^ dash;
  // Stored wrongly it would never be found again.
  if (strange !== 0) throw new RefusedData(`${id} is not a UUID`);
};

const text = Buffer.alloc(textLength, dash);

/** The UUIDs in lower case. Written byte by byte: strings that are glued together would be copied again when they are compared. */
export const unpackIds = (packed: Buffer): string[] => {
  const ids = new Array<string>(Math.floor(packed.length / idBytes));
  for (let index = 0; index < ids.length; index++) {
    const start = index * idBytes;
    for (let byte = 0; byte < idBytes; byte++) {
      const value = packed[start + byte] ?? 0;
      const at = digitAt[byte] ?? 0;
      text[at] = digits[value >> 4] ?? 0;
      text[at + 1] = digits[value & 0xf] ?? 0;
    }
    ids[index] = text.toString('latin1');
  }
  return ids;
};
