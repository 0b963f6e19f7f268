const seed = 0x9747b28c;
const mix = 0x5bd1e995;

/** The hash by which Kafka's Java client chooses a key's partition, over the bytes from `start` to `end`. */
export const murmur2 = (bytes: Uint8Array, start: number, end: number): number => {
  const length = end - start;
  let hash = seed ^ length;
  const whole = start + (length & ~3);
  for (let i = start; i < whole; i += 4) {
    let word =
      (bytes[i] as number) |
      ((bytes[i + 1] as number) << 8) |
      ((bytes[i + 2] as number) << 16) |
      ((bytes[i + 3] as number) << 24);
    word = Math.imul(word, mix);
    word ^= word >>> 24;
    hash = Math.imul(hash, mix) ^ Math.imul(word, mix);
  }
  const rest = end - whole;
  if (rest === 3) hash ^= (bytes[whole + 2] as number) << 16;
  if (rest >= 2) hash ^= (bytes[whole + 1] as number) << 8;
  if (rest >= 1) hash = Math.imul(hash ^ (bytes[whole] as number), mix);
  hash = Math.imul(hash ^ (hash >>> 13), mix);
  return hash ^ (hash >>> 15);
};

/** The partition of a key that lies between other bytes, as the Java client and kafkajs choose it. */
export const partitionOfKey = (
  key: { readonly bytes: Uint8Array; readonly keyStart: number; readonly keyEnd: number },
  partitions: number,
): number => positive(murmur2(key.bytes, key.keyStart, key.keyEnd)) % partitions;

export const positive = (hash: number): number => hash & 0x7fff_ffff;
