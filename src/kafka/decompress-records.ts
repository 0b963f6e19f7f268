import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { UnsupportedRecords } from '../streams/record.ts';

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
      throw new UnsupportedRecords(
        `compressed with ${codecNames[codec] ?? `codec ${codec}`}, which this release cannot read (gzip and zstd can be read). ` +
          'Set compression.type of the topic and of its producers to zstd or gzip. For the records that are there already ' +
          'run a release that reads this codec, or delete them with kafka-delete-records and rebuild from the journal',
      );
  }
};
