/** PostgreSQL's binary format of the types the outbox is made of. */
const postgresEpochMs = 946_684_800_000;

export const readInt4 = (value: Buffer): number => value.readInt32BE(0);

export const readInt8 = (value: Buffer): number => {
  const wide = value.readBigInt64BE(0);
  const number = Number(wide);
  if (!Number.isSafeInteger(number)) throw new RangeError(`${wide} does not fit into a safe integer`);
  return number;
};

export const readUuid = (value: Buffer): string => {
  const hex = value.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
};

export const readTimestamp = (value: Buffer): Date =>
  new Date(postgresEpochMs + Math.floor(Number(value.readBigInt64BE(0)) / 1000));
