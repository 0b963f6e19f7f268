import { DecodingError } from './decode-envelope.ts';

/** A zero byte, then the registry's schema id: what every Confluent-compatible consumer expects before the Avro bytes. */
const magicByte = 0;
export const frameLength = 5;

export const frame = (schemaId: number, payload: Buffer): Buffer => {
  const framed = Buffer.allocUnsafe(frameLength + payload.length);
  framed.writeUInt8(magicByte, 0);
  framed.writeInt32BE(schemaId, 1);
  payload.copy(framed, frameLength);
  return framed;
};

export const schemaIdOf = (framed: Buffer): number => {
  if (framed.length < frameLength || framed.readUInt8(0) !== magicByte) {
    throw new DecodingError(
      `The record does not start with the ${frameLength}-byte schema header (${framed.length} bytes, first ${framed[0] ?? 'none'})`,
    );
  }
  return framed.readInt32BE(1);
};
