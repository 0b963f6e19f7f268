import { expect } from 'chai';
import { productId } from '../../../src/domain/ids.ts';
import type { ReadRecord } from '../../../src/kafka/fetched-record.ts';
import { measureRecordSet, RecordSetReader } from '../../../src/kafka/record-set.ts';
import { createEnvelopeDecoder } from '../../../src/registry/envelope-decoder.ts';
import type { SchemaRegistry } from '../../../src/registry/schema-registry.ts';
import { LanePlaces } from '../../../src/streams/lane-places.ts';
import { isUndecodable, type RawBatch } from '../../../src/streams/record.ts';
import { memoryRegistry, recordOf } from '../../support/commerce-driver.ts';
import { keepLines } from '../../support/logged-lines.ts';
import { encodeBatch, withAttributes } from '../../support/record-batches.ts';

const view = () =>
  recordOf({ type: 'ProductViewed', productId: productId('p1'), userId: null }, { aggregateId: 'p1' });
const futureCodec = 6;

const batchOf = (firstOffset: number): Promise<Buffer> =>
  encodeBatch({
    firstOffset,
    records: [0, 1].map((offsetDelta) => ({ offsetDelta, key: Buffer.from('p1'), value: view().value })),
  });

/** Two events, two that are packed in a way that nobody here knows, and two events. */
const batchWithUnknownCodec = async (reading: number, fromOffset: number): Promise<RawBatch> => {
  const unknown = withAttributes(await batchOf(2), () => futureCodec);
  const set = measureRecordSet(Buffer.concat([await batchOf(0), unknown, await batchOf(4)]));
  if (!set) throw new Error('Nothing was read');
  const records: ReadRecord[] = [];
  new RecordSetReader(set, { fromOffset, aborted: [] }).readInto(records, 100);
  return { topic: 't', partition: 0, reading, fromOffset, records, nextOffset: 6 };
};

describe('decoding a batch', () => {
  const decoder = createEnvelopeDecoder(memoryRegistry as SchemaRegistry);

  it('stops before records that are sound and packed in an unknown way, instead of making a dead letter of them', async () => {
    const { records, nextOffset, stopped } = await decoder.decode(await batchWithUnknownCodec(1, 0));
    expect(records.map(({ raw }) => raw.offset)).to.deep.equal([0, 1]);
    expect(records.filter(isUndecodable)).to.deep.equal([]);
    expect(nextOffset).to.equal(2);
    expect(stopped?.message)
      .to.include('offsets 2 to 3 are compressed with codec 6')
      .and.include('compression.type');
  });

  it('lets the partition wait there, which is told once and tried again', async () => {
    const { log, lines } = keepLines();
    const sought: string[] = [];
    const places = new LanePlaces({
      seek: ({ topic, partition }, offset, { afterMs } = { afterMs: 0 }) =>
        sought.push(`${topic}/${partition}@${offset} after ${afterMs} ms`) + 1,
      retryDelayMs: 700,
      onStopped: () => {},
      log,
    });
    places.assign([{ topic: 't', partition: 0, reading: 1 }], []);
    const first = places.accept(await decoder.decode(await batchWithUnknownCodec(1, 0)));
    expect(first).to.deep.include({ nextOffset: 2 }).and.have.property('records').with.length(2);
    for (const reading of [2, 3]) {
      const batch = await decoder.decode(await batchWithUnknownCodec(reading, 2));
      expect(places.accept(batch), 'nothing of it is passed over').to.equal(undefined);
    }
    expect(sought).to.deep.equal(Array.from({ length: 3 }, () => 't/0@2 after 700 ms'));
    expect(lines.map(({ err }) => err?.message.includes('codec 6'))).to.deep.equal([true]);
  });
});
