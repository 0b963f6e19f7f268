import { expect } from 'chai';
import fc from 'fast-check';
import { createPartitioner, planRounds } from '../../../src/kafka/plan-rounds.ts';
import type { OutgoingRecord } from '../../../src/kafka/record-batch.ts';

const limits = { batchBytesMax: 1000, roundBytesMax: 2500 };

const record = fc.record({
  key: fc.oneof(fc.constant(null), fc.constantFrom('a', 'b', 'ü', 'lang'.repeat(500))),
  value: fc.nat(1500).map((size): Buffer | null => Buffer.alloc(size)),
});
const sends = fc.dictionary(fc.constantFrom('x', 'y', 'z'), fc.array(record, { maxLength: 40 }));

const plan = (send: Readonly<Record<string, readonly OutgoingRecord[]>>, partitions: number) =>
  planRounds(new Map(Object.entries(send)), () => createPartitioner(partitions), limits);

describe('rounds of batches', () => {
  it('hold every record once, in order within its partition, one batch per partition and round', () => {
    fc.assert(
      fc.property(sends, fc.integer({ min: 1, max: 5 }), (send, partitions) => {
        const seen = new Map<string, number[]>();
        const last = new Map<string, number>();
        for (const round of plan(send, partitions)) {
          const targets = round.map(({ topic, partition }) => `${topic}/${partition}`);
          expect(new Set(targets).size).to.equal(targets.length);
          for (const { topic, partition, positions } of round) {
            for (const position of positions) {
              expect(position).to.be.greaterThan(last.get(`${topic}/${partition}`) ?? -1);
              last.set(`${topic}/${partition}`, position);
              seen.set(topic, [...(seen.get(topic) ?? []), position]);
            }
          }
        }
        for (const [topic, records] of Object.entries(send))
          expect((seen.get(topic) ?? []).toSorted((a, b) => a - b)).to.deep.equal(records.map((_, i) => i));
      }),
    );
  });

  it('are bounded: what is over a limit stands alone', () => {
    fc.assert(
      fc.property(sends, (send) => {
        for (const round of plan(send, 3)) {
          for (const batch of round)
            if (batch.length > 1) expect(batch.bytes).to.be.at.most(limits.batchBytesMax);
          const bytes = round.reduce((sum, batch) => sum + batch.bytes, 0);
          if (round.length > 1) expect(bytes).to.be.at.most(limits.roundBytesMax);
        }
      }),
    );
  });

  it('measure a batch to the byte', () => {
    fc.assert(
      fc.property(sends, (send) => {
        for (const batch of plan(send, 2).flat()) expect(batch.encode().length).to.equal(batch.bytes);
      }),
    );
  });

  it('send a record to the partition that it names, and keep its order there', () => {
    const send = {
      x: [
        { key: 'a', value: null, partition: 2 },
        { key: 'a', value: null },
        { key: null, value: null, partition: 2 },
        { key: 'b', value: null, partition: 0 },
      ],
    };
    const [round = []] = plan(send, 3);
    const byKey = createPartitioner(3)({ key: 'a', value: null });
    for (const { partition, positions } of round) {
      const expected = [2, byKey, 2, 0].flatMap((named, position) => (named === partition ? [position] : []));
      expect(positions).to.deep.equal(expected);
    }
    expect(round.flatMap(({ positions }) => positions)).to.have.length(4);
  });

  it('spread records without a key over the partitions', () => {
    const send = { x: Array.from({ length: 6 }, () => ({ key: null, value: null })) };
    const [round = []] = plan(send, 3);
    expect(round.map(({ length }) => length)).to.deep.equal([2, 2, 2]);
  });
});
