import { expect } from 'chai';
import fc from 'fast-check';
import Encoder from 'kafkajs/src/protocol/encoder.js';
import responseOfKafkajs from 'kafkajs/src/protocol/requests/fetch/v11/response.js';
import type { AbortedTransaction } from '../../../src/kafka/aborted-transactions.ts';
import { decodeFetchResponse } from '../../../src/kafka/fetch-response.ts';
import { DamagedRecords, FetchedRecord, type ReadRecord } from '../../../src/kafka/fetched-record.ts';
import { FlexibleWriter } from '../../../src/kafka/flexible-fields.ts';
import { measureRecordSet, RecordSetReader } from '../../../src/kafka/record-set.ts';
import { type RawRecord, UnsupportedRecords } from '../../../src/streams/record.ts';
import {
  encodeBatch,
  encodeMarker,
  encodeNumbered,
  type SpecBatch,
  type SpecRecord,
  withAttributes,
  withChecksum,
} from '../../support/record-batches.ts';

interface ReadSet {
  readonly records: readonly RawRecord[];
  readonly nextOffset: number;
}

/** Reads a whole set, in portions of the sizes given, again and again. */
const read = (
  bytes: Buffer,
  options: {
    fromOffset?: number;
    aborted?: readonly AbortedTransaction[];
    portions?: readonly number[];
  } = {},
): ReadSet => {
  const set = measureRecordSet(bytes);
  if (!set) return { records: [], nextOffset: options.fromOffset ?? 0 };
  const { fromOffset = 0, aborted = [], portions = [1000] } = options;
  const reader = new RecordSetReader(set, { fromOffset, aborted });
  const records: RawRecord[] = [];
  for (let turn = 0; !reader.isAtEnd; turn++) {
    const portion: ReadRecord[] = [];
    const recordsMax = portions[turn % portions.length] as number;
    const before = reader.nextOffset;
    reader.readInto(portion, recordsMax);
    if (reader.suspect) {
      expect(reader.isAtEnd).to.equal(false);
      reader.condemn();
      reader.readInto(portion, recordsMax);
    }
    expect(portion.length).to.be.at.most(recordsMax);
    expect(reader.nextOffset).to.be.at.least(before);
    const last = portion.at(-1);
    if (last) expect(reader.nextOffset).to.be.above(last.offset);
    records.push(...portion);
  }
  return { records, nextOffset: reader.nextOffset };
};

const plain = (record: RawRecord) => ({
  offset: record.offset,
  timestampMs: record.timestampMs,
  key: record.key,
  value: record.value,
  headers: { ...record.headers },
});

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array)),
  fc.constantFrom(0, 63, 64, 8191, 8192).map((size) => Buffer.alloc(size, 0xa5)),
);
// kafkajs's decoder takes what every object inherits, such as toString, for an earlier header of that name.
const headerName = fc.string({ unit: 'grapheme', maxLength: 30 }).filter((name) => !(name in {}));
const headers = fc.dictionary(headerName, fc.oneof(bytes, fc.array(bytes, { minLength: 1, maxLength: 3 })), {
  maxKeys: 5,
  noNullPrototype: true,
});
const records = fc
  .array(
    fc.record({
      // Compaction leaves gaps.
      gap: fc.oneof({ weight: 9, arbitrary: fc.constant(1) }, fc.integer({ min: 2, max: 1000 })),
      timestampDelta: fc.oneof(fc.integer({ min: -5000, max: 5000 }), fc.constantFrom(2 ** 40, -(2 ** 40))),
      key: fc.option(bytes),
      value: fc.option(bytes),
      headers,
    }),
    { minLength: 1, maxLength: 20 },
  )
  .map((made): readonly SpecRecord[] => {
    let offsetDelta = -1;
    return made.map(({ gap, ...record }) => {
      offsetDelta += gap;
      return { ...record, offsetDelta };
    });
  });
const batches = fc
  .array(
    fc.record({
      records,
      packed: fc.constantFrom(undefined, undefined, 'gzip' as const),
      tail: fc.integer({ min: 0, max: 3 }),
    }),
    { minLength: 1, maxLength: 5 },
  )
  .chain((made) => fc.tuple(fc.constant(made), fc.constantFrom(0, 7, 2 ** 31 - 3, 2 ** 40)))
  .map(([made, start]): readonly SpecBatch[] => {
    let firstOffset = start;
    return made.map(({ records: ofBatch, packed, tail }) => {
      const lastOffsetDelta = (ofBatch.at(-1)?.offsetDelta ?? 0) + tail;
      const batch = { firstOffset, lastOffsetDelta, packed, records: ofBatch };
      firstOffset += lastOffsetDelta + 1;
      return batch;
    });
  });

/** Several values under one name: kafkajs lists them, and here the last one counts. */
const lastOf = (held: Buffer | null | readonly (Buffer | null)[]): Buffer | null =>
  Array.isArray(held) ? held.at(-1) : (held as Buffer | null);

/** An answer as kafkajs reads it. */
const answerWith = (recordSet: Buffer): Buffer =>
  new Encoder()
    .writeInt32(12)
    .writeInt16(0)
    .writeInt32(0)
    .writeInt32(1)
    .writeString('like-events')
    .writeInt32(1)
    .writeInt32(2)
    .writeInt16(0)
    .writeInt64('1000')
    .writeInt64('900')
    .writeInt64('0')
    .writeInt32(1)
    .writeInt64('4294967299')
    .writeInt64('70')
    .writeInt32(-1)
    .writeBytes(recordSet).buffer;

const topicId = '0190163d-8694-739b-aea5-966c26f8ad90';
const topics = new Map([[topicId, 'like-events']]);

/** The same answer in the version that is asked for; the partition may have more to say at its end. */
const ownAnswerWith = (recordSet: Buffer, atTheEnd = new FlexibleWriter().noTags()): Buffer => {
  const partition = new FlexibleWriter()
    .int32(2)
    .int16(0)
    .int64(1000)
    .int64(900)
    .int64(5)
    .list([4_294_967_299], () => {});
  return Buffer.concat([
    new FlexibleWriter().noTags().int32(12).int16(0).int32(0).uvarint(2).uuid(topicId).uvarint(2).bytes,
    partition.int64(4_294_967_299).int64(70).noTags().int32(-1).byteField(recordSet).bytes,
    atTheEnd.bytes,
    new FlexibleWriter().noTags().noTags().bytes,
  ]);
};

describe('record set', () => {
  it('gives what kafkajs reads in the same answer of a broker, cut off wherever it may be', async () => {
    await fc.assert(
      fc.asyncProperty(
        batches,
        fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 4 }),
        fc.nat(),
        async (specs, portions, cut) => {
          const encoded = await Promise.all(specs.map(encodeBatch));
          const whole = Buffer.concat(encoded);
          const recordSet = whole.subarray(0, whole.length - (cut % (encoded.at(-1)?.length ?? 1)));
          // With less than the beginning of a header kafkajs fails.
          fc.pre(recordSet.length > 16);
          const { partitions } = decodeFetchResponse(ownAnswerWith(recordSet), topics);
          const { responses } = await responseOfKafkajs.decode(answerWith(recordSet));
          const ours = read(partitions[0]?.recordSet ?? Buffer.alloc(0), { portions });
          expect(ours.records.map(plain)).to.deep.equal(
            responses[0]?.partitions[0]?.messages.map((message) => ({
              offset: Number(message.offset),
              timestampMs: Number(message.timestamp),
              key: message.key,
              value: message.value,
              headers: Object.fromEntries(
                Object.entries(message.headers).map(([name, held]) => [name, lastOf(held)]),
              ),
            })),
          );
          const isCut = recordSet.length < whole.length;
          const lastWhole = isCut ? specs.at(-2) : specs.at(-1);
          if (lastWhole) {
            expect(ours.nextOffset).to.equal(lastWhole.firstOffset + (lastWhole.lastOffsetDelta ?? 0) + 1);
          }
        },
      ),
      { numRuns: 80 },
    );
  });

  it('reads the fields of an answer around the records, too', () => {
    const { throttleMs, partitions } = decodeFetchResponse(ownAnswerWith(Buffer.from('records')), topics);
    expect(throttleMs).to.equal(12);
    expect(partitions).to.deep.equal([
      {
        topic: 'like-events',
        partition: 2,
        errorCode: 0,
        highWatermark: 1000,
        lastStableOffset: 900,
        aborted: [{ producerId: 4_294_967_299, firstOffset: 70 }],
        recordSet: Buffer.from('records'),
      },
    ]);
  });

  it('knows where a log parts from the one that was read, and passes over what it does not know', () => {
    const divergence = new FlexibleWriter().int32(3).int64(870).noTags().bytes;
    const tags = new FlexibleWriter().uvarint(2).uvarint(0).uvarint(divergence.length);
    const parting = Buffer.concat([tags.bytes, divergence, Buffer.from([9, 2, 1, 2])]);
    const { partitions } = decodeFetchResponse(
      ownAnswerWith(Buffer.alloc(0), { bytes: parting } as FlexibleWriter),
      topics,
    );
    expect(partitions[0]?.divergence).to.deep.equal({ leaderEpoch: 3, endOffset: 870, logStartOffset: 5 });
  });

  it('leaves out what an answer has of topics that nobody has asked for', () => {
    const answer = ownAnswerWith(Buffer.from('records'));
    expect(decodeFetchResponse(answer, new Map()).partitions).to.deep.equal([]);
  });

  it('unpacks zstd as well as gzip', async () => {
    for (const packed of ['gzip', 'zstd'] as const) {
      const { records: found } = read(
        await encodeBatch({
          firstOffset: 5,
          packed,
          records: [0, 1, 2].map((offsetDelta) => ({
            offsetDelta,
            key: null,
            value: Buffer.from(`${packed} ${offsetDelta}`),
          })),
        }),
      );
      expect(found.map(({ offset, value }) => `${offset} ${value}`)).to.deep.equal([
        `5 ${packed} 0`,
        `6 ${packed} 1`,
        `7 ${packed} 2`,
      ]);
    }
  });

  it('begins at the offset that was asked for, in the middle of a batch as well', async () => {
    const bytesOfTwo = Buffer.concat([await encodeNumbered(10, 5), await encodeNumbered(15, 5)]);
    const { records: found, nextOffset } = read(bytesOfTwo, { fromOffset: 13, portions: [3] });
    expect(found.map(({ offset }) => offset)).to.deep.equal([13, 14, 15, 16, 17, 18, 19]);
    expect(nextOffset).to.equal(20);
  });

  it('has the time of the broker where the topic wants it so', async () => {
    const batch = await encodeBatch({
      firstOffset: 0,
      firstTimestamp: 1000,
      maxTimestamp: 5000,
      records: [{ offsetDelta: 0, timestampDelta: 7, key: null, value: null }],
    });
    expect(read(batch).records[0]?.timestampMs).to.equal(1007);
    const appended = withAttributes(batch, (attributes) => attributes | 0x08);
    expect(read(appended).records[0]?.timestampMs).to.equal(5000);
  });

  it('passes over batches that compaction has emptied', async () => {
    const empty = withChecksum(
      Buffer.from(await encodeBatch({ firstOffset: 0, lastOffsetDelta: 9, records: [] })),
    );
    const { records: found, nextOffset } = read(Buffer.concat([empty, await encodeNumbered(10, 1)]));
    expect(found.map(({ offset }) => offset)).to.deep.equal([10]);
    expect(nextOffset).to.equal(11);
    expect(read(empty).nextOffset).to.equal(10);
  });

  describe('of transactions', () => {
    const outcome = fc.constantFrom('commit' as const, 'abort' as const);
    const step = fc.record({ producerId: fc.integer({ min: 1, max: 3 }), ends: fc.option(outcome) });

    it('shows what was committed, and nothing of what was given up', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(step, { minLength: 1, maxLength: 25 }),
          fc.array(fc.boolean()),
          async (steps, plainWrites) => {
            const parts: Buffer[] = [];
            const aborted: AbortedTransaction[] = [];
            const visible: number[] = [];
            const open = new Map<number, number[]>();
            let offset = 0;
            for (const [index, { producerId, ends }] of steps.entries()) {
              // Somebody who knows nothing of transactions writes in between.
              if (plainWrites[index]) {
                parts.push(await encodeNumbered(offset, 2));
                visible.push(offset, offset + 1);
                offset += 2;
              }
              const written = open.get(producerId) ?? [];
              if (ends && written.length > 0) {
                parts.push(await encodeMarker(offset++, producerId, ends));
                if (ends === 'commit') visible.push(...written);
                else aborted.push({ producerId, firstOffset: written[0] as number });
                open.delete(producerId);
              } else {
                const record = { offsetDelta: 0, key: null, value: Buffer.from('x') };
                parts.push(
                  await encodeBatch({
                    firstOffset: offset,
                    producerId,
                    transactional: true,
                    records: [record],
                  }),
                );
                open.set(producerId, [...written, offset++]);
              }
            }
            // A broker sends nothing of transactions that are open: here they are committed in the end.
            for (const [producerId, written] of open) {
              parts.push(await encodeMarker(offset++, producerId, 'commit'));
              visible.push(...written);
            }
            const found = read(Buffer.concat(parts), { aborted, portions: [2] });
            expect(found.records.map((record) => record.offset)).to.deep.equal(visible.sort((a, b) => a - b));
            expect(found.nextOffset, 'markers have offsets, too').to.equal(offset);
          },
        ),
        { numRuns: 150 },
      );
    });
  });

  describe('that is damaged', () => {
    it('never fails, never stands still, and loses only the batch that is', async () => {
      const [before, target, after] = [
        await encodeNumbered(0, 3),
        await encodeNumbered(3, 5),
        await encodeNumbered(8, 2),
      ];
      fc.assert(
        fc.property(
          // Behind the length and the format version: a broker does not send what it cannot find its way in.
          fc.integer({ min: 17, max: target.length - 1 }),
          fc.integer({ min: 1, max: 255 }),
          (at, flip) => {
            const damaged = Buffer.from(target);
            damaged[at] = (damaged[at] as number) ^ flip;
            const { records: found, nextOffset } = read(Buffer.concat([before, damaged, after]), {
              portions: [4],
            });
            expect(nextOffset).to.equal(10);
            const sound = found.filter((record) => record instanceof FetchedRecord);
            expect(sound.map(({ offset }) => offset)).to.deep.equal([0, 1, 2, 8, 9]);
            const [stands, ...others] = found.filter((record) => record instanceof DamagedRecords);
            expect(others).to.deep.equal([]);
            expect(stands?.offset).to.equal(3);
            expect(stands?.damage.message).to.match(/^The batch of offsets 3 to \d+ .*checksum is wrong/);
            expect(stands?.value).to.deep.equal(damaged);
          },
        ),
        { numRuns: 500 },
      );
    });

    it('is not passed over before it is condemned, and has the same fingerprint only for the same damage', async () => {
      const damaged = (at: number): Buffer => {
        const bytes = Buffer.from(whole);
        bytes[at] = (bytes[at] as number) ^ 1;
        return bytes;
      };
      const whole = await encodeNumbered(3, 5);
      const suspectIn = async (batch: Buffer) => {
        const set = measureRecordSet(
          Buffer.concat([await encodeNumbered(0, 3), batch, await encodeNumbered(8, 2)]),
        );
        if (!set) throw new Error('Nothing was read');
        const reader = new RecordSetReader(set, { fromOffset: 0, aborted: [] });
        const found: ReadRecord[] = [];
        for (const _ of [1, 2]) reader.readInto(found, 100);
        return { found, suspect: reader.suspect, nextOffset: reader.nextOffset };
      };
      const once = await suspectIn(damaged(80));
      expect(once.found.map(({ offset }) => offset)).to.deep.equal([0, 1, 2]);
      expect(once.nextOffset).to.equal(3);
      expect(once.suspect).to.deep.include({ offset: 3, what: 'is damaged: its checksum is wrong' });
      expect((await suspectIn(damaged(80))).suspect).to.deep.equal(once.suspect);
      expect((await suspectIn(damaged(81))).suspect?.fingerprint).to.not.equal(once.suspect?.fingerprint);
      expect((await suspectIn(whole)).suspect).to.equal(undefined);
    });

    it('gives the records before the damage, when a producer wrote it so', async () => {
      const target = Buffer.from(await encodeNumbered(3, 5));
      const third = target.indexOf('key-5');
      // The record's length, in front of attributes, timestamp, offset and the key's length.
      target[third - 6] = 0x7f;
      const { records: found, nextOffset } = read(
        Buffer.concat([withChecksum(target), await encodeNumbered(8, 1)]),
      );
      expect(found.map(({ offset }) => offset)).to.deep.equal([3, 4, 5, 8]);
      expect(found[2]).to.be.instanceOf(DamagedRecords);
      expect(found[2]?.damage?.message).to.match(
        /no record begins where one should, \d+ bytes before its end/,
      );
      expect(nextOffset).to.equal(9);
    });

    it('says which compression it does not know', async () => {
      for (const [codec, name] of [
        [2, 'snappy'],
        [3, 'lz4'],
        [6, 'codec 6'],
      ] as const) {
        const batch = withAttributes(await encodeNumbered(0, 3), () => codec);
        const { records: found, nextOffset } = read(Buffer.concat([batch, await encodeNumbered(3, 1)]));
        expect(found.map(({ offset }) => offset)).to.deep.equal([0, 3]);
        expect(found[0]?.damage).to.be.instanceOf(UnsupportedRecords);
        expect(found[0]?.damage?.message).to.include('offsets 0 to 2').and.include(name);
        expect(nextOffset).to.equal(4);
      }
    });

    it('does not unpack more than a batch can be', async () => {
      const bomb = { offsetDelta: 0, key: null, value: Buffer.alloc(70 * 1024 * 1024) };
      const batch = await encodeBatch({ firstOffset: 0, packed: 'gzip', records: [bomb] });
      expect(batch.length).to.be.below(200_000);
      const { records: found } = read(batch);
      expect(found[0]?.damage?.message).to.include('cannot be unpacked');
    });

    it('is passed over where it has an old format', async () => {
      const old = Buffer.alloc(40);
      old.writeBigInt64BE(6n, 0);
      old.writeInt32BE(28, 8);
      old[16] = 1;
      const { records: found, nextOffset } = read(Buffer.concat([old, await encodeNumbered(7, 1)]));
      expect(found.map(({ offset }) => offset)).to.deep.equal([6, 7]);
      expect(found[0]?.damage?.message).to.include('old format 1');
      expect(nextOffset).to.equal(8);
    });
  });

  describe('record', () => {
    const withHeaders = async (headersOf: SpecRecord['headers']): Promise<FetchedRecord> => {
      const record = { offsetDelta: 0, key: null, value: null, ...(headersOf && { headers: headersOf }) };
      const [found] = read(await encodeBatch({ firstOffset: 0, records: [record] })).records;
      if (!(found instanceof FetchedRecord)) throw new Error('No record was read');
      return found;
    };
    const mark = { id: 'r1', projection: 'order-view', attempt: 2 };
    const marked = Buffer.from(JSON.stringify(mark));

    it('tells where its value lies', async () => {
      const [first] = read(await encodeNumbered(0, 1)).records;
      expect(first?.bytes.subarray(first.valueStart, first.valueEnd)).to.deep.equal(first?.value);
      const tombstone = await withHeaders({});
      expect([tombstone.value, tombstone.valueStart]).to.deep.equal([null, -1]);
    });

    it('keeps headers that come twice, in order, and knows the last value', async () => {
      const record = await withHeaders({ a: [Buffer.from('1'), Buffer.from('2')], b: Buffer.from('3') });
      expect(record.headerEntries().map(([name, value]) => `${name}=${value}`)).to.deep.equal([
        'a=1',
        'a=2',
        'b=3',
      ]);
      expect({ ...record.headers }).to.deep.equal({ a: Buffer.from('2'), b: Buffer.from('3') });
    });

    it('takes any header name for what it is', async () => {
      const record = await withHeaders({ ['__proto__']: Buffer.from('x'), toString: Buffer.from('y') });
      expect(Object.keys(record.headers)).to.have.members(['__proto__', 'toString']);
    });

    it('knows the mark of a replay when it comes first, and only then', async () => {
      const other = Buffer.from('x');
      expect((await withHeaders({ '__millrace.replay': marked, other })).replay).to.deep.equal(mark);
      expect((await withHeaders({ other, '__millrace.replay': marked })).replay).to.equal(undefined);
      expect((await withHeaders({ '__millrace.replax': marked })).replay).to.equal(undefined);
      expect((await withHeaders({})).replay).to.equal(undefined);
    });

    it('takes a mark that says something else for none', async () => {
      for (const text of ['', '{', 'null', '[]', '{"id":"r1","projection":1,"attempt":2}', '{"id":"r1"}']) {
        const record = await withHeaders({ '__millrace.replay': Buffer.from(text) });
        expect(record.replay, text).to.equal(undefined);
      }
    });
  });
});
