/** Values as PostgreSQL sends them in binary, read where they stand. */

const postgresEpochMs = 946_684_800_000;

/** Far below 2^53 here, with a guard. */
export const readInt8 = (bytes: Buffer, at: number): number => {
  const value = bytes.readInt32BE(at) * 0x1_0000_0000 + bytes.readUInt32BE(at + 4);
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} does not fit into a safe integer`);
  return value;
};

export const readUuid = (bytes: Buffer, at: number): string => {
  const hex = bytes.toString('hex', at, at + 16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
};

export const readTimestamp = (bytes: Buffer, at: number): Date =>
  new Date(postgresEpochMs + Math.floor(readInt8(bytes, at) / 1000));
