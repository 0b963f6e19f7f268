/**
 * A record batch of format version 2, the only one Kafka 4 takes and gives:
 * base offset 8 · length 4 · leader epoch 4 · magic 1 · checksum 4 · attributes 2 · last offset delta 4 ·
 * first timestamp 8 · largest timestamp 8 · producer id 8 · producer epoch 2 · first sequence 4 · count 4 · records
 */
export const batchHeaderSize = 61;
export const lengthAt = 8;
/** Offset and length themselves are not counted. Older formats begin with the same two fields. */
export const lengthCountsFrom = 12;
export const leaderEpochAt = 12;
export const magicAt = 16;
export const magicOfBatches = 2;
export const checksumAt = 17;
export const checksumFrom = 21;
export const attributesAt = 21;
export const lastOffsetDeltaAt = 23;
export const firstTimestampAt = 27;
export const maxTimestampAt = 35;
export const producerIdAt = 43;
export const producerEpochAt = 51;
export const firstSequenceAt = 53;
export const countAt = 57;

/** Bits of the attributes. */
export const codecMask = 0x07;
export const isLogAppendTime = 0x08;
export const isTransactional = 0x10;
export const isControl = 0x20;

/** Offsets, timestamps and producer ids are far from 2^53. */
export const readInt64 = (bytes: Buffer, at: number): number =>
  bytes.readInt32BE(at) * 0x1_0000_0000 + bytes.readUInt32BE(at + 4);
