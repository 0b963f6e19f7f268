import { gunzipSync, zstdDecompressSync } from 'node:zlib';

/** A broker takes batches of about 1 MB; whatever becomes larger than this is no batch of events but an attack or a mistake. */
const unpackedBytesMax = 64 * 1024 * 1024;

const codecNames = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];

/** Node has gzip and zstd built in. What is packed otherwise is told by name: whoever produces such records can change that. */
export const decompressRecords = (codec: number, packed: Buffer): Buffer => {
  switch (codec) {
    case 1:
      return gunzipSync(packed, { maxOutputLength: unpackedBytesMax });
    case 4:
      return zstdDecompressSync(packed, { maxOutputLength: unpackedBytesMax });
    default:
      throw new Error(`records compressed with ${codecNames[codec] ?? `codec ${codec}`} cannot be read here`);
  }
};
