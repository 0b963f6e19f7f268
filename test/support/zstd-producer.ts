import { zstdCompressSync } from 'node:zlib';
import kafkajs, { CompressionTypes } from 'kafkajs';

/**
 * kafkajs packs with gzip only; what others write may well be packed with zstd. Import this to write like them. Only
 * packing is taught: whoever reads such records through kafkajs fails, as it would outside of specs.
 */
kafkajs.CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async ({ buffer }: { buffer: Buffer }) => zstdCompressSync(buffer),
  decompress: async () => {
    throw new Error('kafkajs cannot unpack zstd');
  },
});
