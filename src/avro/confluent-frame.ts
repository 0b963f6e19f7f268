import { DecodingError } from './decode-envelope.ts';

/** A zero byte, then the registry's schema id: what every Confluent-compatible consumer expects before the Avro bytes. */
const magicByte = 0;
export const frameLength = 5;

/** What stands before the Avro bytes of every record with this schema. */
export const frameHeader = (schemaId: number): Buffer => {
  const header = Buffer.alloc(frameLength);
  header.writeUInt8(magicByte, 0);
  header.writeInt32BE(schemaId, 1);
  return header;
};

export const frame = (schemaId: number, payload: Buffer): Buffer =>
  Buffer.concat([frameHeader(schemaId), payload]);

export const schemaIdOf = (framed: Buffer): number => schemaIdWithin(framed, 0, framed.length);

/** The same for a frame among other bytes. */
export const schemaIdWithin = (bytes: Buffer, start: number, end: number): number => {
  if (end - start < frameLength || bytes[start] !== magicByte) {
    const first = end > start ? bytes[start] : 'none';
    throw new DecodingError(
      `The record does not start with the ${frameLength}-byte schema header (${end - start} bytes, first ${first})`,
    );
  }
  return bytes.readInt32BE(start + 1);
};
