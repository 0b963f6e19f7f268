import { expect } from 'chai';
import fc from 'fast-check';
import murmur2OfKafkajs from 'kafkajs/src/producer/partitioners/default/murmur2.js';
import Decoder from 'kafkajs/src/protocol/decoder.js';
import crcOfKafkajs from 'kafkajs/src/protocol/recordBatch/crc32C/index.js';
import encodeRecordOfKafkajs from 'kafkajs/src/protocol/recordBatch/record/v0/index.js';
import decodeBatch from 'kafkajs/src/protocol/recordBatch/v0/decoder.js';
import batchOfKafkajs from 'kafkajs/src/protocol/recordBatch/v0/index.js';
import { batchHeaderSize } from '../../../src/kafka/batch-layout.ts';
import { crc32c } from '../../../src/kafka/crc32c.ts';
import {
  encodeHeaderEntries,
  encodeHeaders,
  encodeHeadersWithUuid,
} from '../../../src/kafka/header-block.ts';
import { murmur2 } from '../../../src/kafka/murmur2.ts';
import {
  encodeRecordBatch,
  type OutgoingRecord,
  type ProducerState,
  type RecordInParts,
  sealRecordBatch,
  sizeInBatch,
  sizeOfRecord,
} from '../../../src/kafka/record-batch.ts';
import { sizeOfVarint, writeVarint } from '../../../src/kafka/wire-format.ts';

const timestampMs = 1_790_000_000_123;
const state: ProducerState = { producerId: 4_294_967_299n, producerEpoch: 3, firstSequence: 70_000 };

const encode = (records: readonly OutgoingRecord[]): Buffer => {
  const sizes = records.map(sizeOfRecord);
  const batch = encodeRecordBatch({
    records,
    positions: records.map((_, position) => position),
    sizes,
    bytes: sizes.reduce((sum, size, place) => sum + sizeInBatch(size, place), batchHeaderSize),
    timestampMs,
  });
  sealRecordBatch(batch, state);
  return batch;
};

const encodeWithKafkajs = async (records: readonly RecordInParts[]): Promise<Buffer> => {
  const encoder = await batchOfKafkajs.RecordBatch({
    firstTimestamp: timestampMs,
    maxTimestamp: timestampMs,
    producerId: String(state.producerId),
    producerEpoch: state.producerEpoch,
    firstSequence: state.firstSequence,
    lastOffsetDelta: records.length - 1,
    records: records.map(({ key, value, headers }, offsetDelta) =>
      encodeRecordOfKafkajs({ offsetDelta, timestampDelta: 0, key, value, headers }),
    ),
  });
  return encoder.buffer;
};

// Strings with characters of one to four bytes, halves of pairs, and lengths around every limit of the encoding.
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.string({ unit: fc.integer({ min: 0xd7f0, max: 0xe010 }).map((unit) => String.fromCharCode(unit)) }),
  fc.constantFrom('', 'a'.repeat(63), 'a'.repeat(64), 'a'.repeat(65), 'é'.repeat(64), '漢字', '🚰'),
);
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array)),
  fc.constantFrom(0, 63, 64, 8191, 8192, 70_000).map((size) => Buffer.alloc(size, 0xa5)),
);
// kafkajs's decoder takes what every object inherits, such as toString, for an earlier header of that name.
const headerName = text.filter((name) => !(name in {}));
const headers = fc.dictionary(headerName, fc.oneof(text, bytes), { maxKeys: 6, noNullPrototype: true });
const record: fc.Arbitrary<RecordInParts> = fc.record(
  {
    key: fc.oneof(fc.constant(null), text, bytes),
    value: fc.oneof(fc.constant(null), bytes),
    headers,
  },
  { requiredKeys: ['key', 'value'] },
);
const records = fc.array(record, { minLength: 1, maxLength: 150 });

const asBuffer = (value: Buffer | string | null): Buffer | null =>
  typeof value === 'string' ? Buffer.from(value) : value;

/** Names that differ only in halves of pairs are one name on the wire, and kafkajs lists its values together. */
const listed = (given: Readonly<Record<string, Buffer | string | readonly Buffer[]>>) => {
  const byName = new Map<string, (Buffer | null)[]>();
  for (const [name, value] of Object.entries(given)) {
    const values = typeof value === 'string' || Buffer.isBuffer(value) ? [asBuffer(value)] : value;
    byName.set(name.toWellFormed(), [...(byName.get(name.toWellFormed()) ?? []), ...values]);
  }
  return byName;
};

describe('record batch', () => {
  it('is byte for byte what kafkajs would have written', async () => {
    await fc.assert(
      fc.asyncProperty(records, async (given) => {
        expect(encode(given).equals(await encodeWithKafkajs(given))).to.equal(true);
      }),
      { numRuns: 150 },
    );
  });

  it('gives back exactly its records when kafkajs decodes it', async () => {
    await fc.assert(
      fc.asyncProperty(records, async (given) => {
        const batch = encode(given);
        const decoded = await decodeBatch(new Decoder(batch));
        expect(decoded.producerId).to.equal(String(state.producerId));
        expect(decoded.producerEpoch).to.equal(state.producerEpoch);
        expect(decoded.firstSequence).to.equal(state.firstSequence);
        expect(decoded.records).to.have.length(given.length);
        for (const [place, { key, value, headers: found, offset, timestamp }] of decoded.records.entries()) {
          expect(offset).to.equal(String(place));
          expect(timestamp).to.equal(String(timestampMs));
          expect(key).to.deep.equal(asBuffer(given[place]?.key ?? null));
          expect(value).to.deep.equal(given[place]?.value);
          expect(listed(found)).to.deep.equal(listed(given[place]?.headers ?? {}));
        }
      }),
      { numRuns: 100 },
    );
  });

  it('has the headers that were encoded beforehand, then those of the record itself', async () => {
    const shared = { ce_specversion: '1.0', ce_type: 'OrderCreated', 'content-type': 'application/avro' };
    const sharedHeaders = encodeHeaders(shared);
    const own = ['eins', 'zwei', 'drei'].map((id) => ({ ce_id: id }));
    const batch = encode(
      own.map((headersOfRecord) => ({
        key: 'k',
        value: Buffer.from('v'),
        sharedHeaders,
        headers: headersOfRecord,
      })),
    );
    const inFull = own.map((headersOfRecord) => ({
      key: 'k',
      value: Buffer.from('v'),
      headers: { ...shared, ...headersOfRecord },
    }));
    expect(batch.equals(await encodeWithKafkajs(inFull))).to.equal(true);
  });

  it('takes records from the place where their bytes stand, as if they had been given in parts', async () => {
    const shared = { ce_specversion: '1.0', ce_source: '/größe' };
    const shape = {
      valuePrefix: Buffer.from([0, 0, 0, 1, 2]),
      sharedHeaders: encodeHeadersWithUuid(shared, 'ce_id'),
    };
    await fc.assert(
      fc.asyncProperty(fc.uuid(), bytes, bytes, headers, async (id, key, value, own) => {
        // In one object with the others, names that are numbers would come first.
        fc.pre(
          Object.keys(own).every((name) => !/^\d+$/.test(name) && name !== 'ce_id' && !(name in shared)),
        );
        const inPlace = {
          bytes: Buffer.concat([Buffer.from('..'), Buffer.from(id.replaceAll('-', ''), 'hex'), key, value]),
          uuidStart: 2,
          keyStart: 18,
          keyEnd: 18 + key.length,
          valueStart: 18 + key.length,
          valueEnd: 18 + key.length + value.length,
          shape,
          headers: own,
        };
        const inParts = {
          key,
          value: Buffer.concat([shape.valuePrefix, value]),
          headers: { ...shared, ce_id: id, ...own },
        };
        expect(encode([inPlace]).equals(await encodeWithKafkajs([inParts]))).to.equal(true);
      }),
      { numRuns: 100 },
    );
    expect(() => encode([{ key: 'k', value: null, sharedHeaders: shape.sharedHeaders }])).to.throw('UUID');
  });

  it('takes headers as entries: in their order whatever their names, some twice, some without a value', async () => {
    const entries = [
      ['first', Buffer.from('yes')],
      ['7', Buffer.from('seven')],
      ['none', null],
      ['7', Buffer.alloc(0)],
    ] as const;
    const batch = encode([{ key: null, value: null, sharedHeaders: encodeHeaderEntries(entries) }]);
    expect(batch.indexOf('first'), 'before the number').to.be.below(batch.indexOf('seven'));
    const { records: decoded } = await decodeBatch(new Decoder(batch));
    expect(decoded[0]?.headers).to.deep.equal({
      first: Buffer.from('yes'),
      7: [Buffer.from('seven'), Buffer.alloc(0)],
      none: null,
    });
  });

  it('holds a record of several megabytes', async () => {
    const given = [{ key: 'large', value: Buffer.alloc(5_000_000, 1) }];
    expect(encode(given).equals(await encodeWithKafkajs(given))).to.equal(true);
  });

  it('refuses to hand over a batch whose size was measured wrongly', () => {
    const given = [{ key: 'k', value: Buffer.from('v') }];
    expect(() =>
      encodeRecordBatch({ records: given, positions: [0], sizes: [7], bytes: 100, timestampMs }),
    ).to.throw('instead of 100 bytes');
  });
});

describe('checksum', () => {
  it('is CRC-32C, from every start and at every alignment', () => {
    expect(crc32c(Buffer.from('123456789'))).to.equal(0xe3069283);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), fc.nat(9), fc.nat(30), (array, shift, from) => {
        const buffer = Buffer.concat([Buffer.alloc(shift), array]).subarray(shift);
        const start = Math.min(from, buffer.length);
        expect(crc32c(buffer, start)).to.equal(crcOfKafkajs(buffer.subarray(start)));
      }),
    );
  });
});

describe('hash of a key', () => {
  it('is the one by which kafkajs and the Java client choose the partition', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (array) => {
        const key = Buffer.from(array);
        expect(murmur2(key, 0, key.length)).to.equal(murmur2OfKafkajs(key));
      }),
    );
    // From the Java client's own tests (UtilsTest.testMurmur2).
    const known = { 21: -973932308, foobar: -790332482, 'a-little-bit-long-string': -985981536 };
    for (const [key, hash] of Object.entries(known))
      expect(murmur2(Buffer.from(`__${key}_`), 2, key.length + 2)).to.equal(hash);
  });
});

describe('variable-length integer', () => {
  it('takes as many bytes as was measured, up to the largest', () => {
    const target = Buffer.alloc(8);
    for (const value of [0, 63, 64, 8191, 8192, 2 ** 20 - 1, 2 ** 20, 2 ** 27 - 1, 2 ** 27, 2 ** 31 - 1])
      expect(writeVarint(target, value, 0)).to.equal(sizeOfVarint(value));
  });
});
