import { expect } from 'chai';
import fc from 'fast-check';
import {
  type OffsetRange,
  RecordsGone,
  type StoredRecord,
  type TopicReader,
} from '../../../src/kafka/topic-reader.ts';
import { TopicSource } from '../../../src/rebuild/topic-source.ts';
import type { RawBatch } from '../../../src/streams/record.ts';
import { eventually } from '../../support/eventually.ts';

const place = { topic: 't', partition: 0 };
const never = new AbortController().signal;

/** A topic whose offsets have gaps, read in pieces. Nothing is read from where a transaction is open. */
const topicWith = (
  offsets: readonly number[],
  pieceMax: number,
  { openFrom = () => Number.POSITIVE_INFINITY } = {},
): TopicReader => ({
  ranges: async () => [],
  read: async function* ({ start, end }: OffsetRange) {
    const stop = Math.min(end, Math.max(start, openFrom()));
    const records = offsets
      .filter((offset) => offset >= start && offset < stop)
      .map(
        (offset): StoredRecord => ({ offset, timestampMs: 0, key: null, value: Buffer.of(1), headers: [] }),
      );
    for (let at = 0; at < records.length; at += pieceMax) yield records.slice(at, at + pieceMax);
    return stop;
  },
  close: async () => {},
});

const startAt = async (reader: TopicReader, offset: number): Promise<TopicSource> => {
  const source = new TopicSource({ reader, places: [place], onApplied: () => {} });
  await source.start({
    onAssigned: async () => [{ ...place, offset }],
    onRevoked: () => {},
    onGone: () => false,
  });
  return source;
};

/** Takes until everything up to the target is applied. */
const takeUpTo = async (
  source: TopicSource,
  target: number,
  recordsMax: number,
): Promise<readonly RawBatch[]> => {
  const batches: RawBatch[] = [];
  let isThere = false;
  const there = source.advanceTo([{ ...place, offset: target }], never).then(() => {
    isThere = true;
  });
  while (!isThere) {
    const taken = await source.take({ recordsMax, waitMs: 1 });
    batches.push(...taken);
    source.reportApplied(taken.map(({ nextOffset }) => ({ ...place, offset: nextOffset })));
    await new Promise(setImmediate);
  }
  await there;
  return batches;
};

describe('the topics as a source that goes as far as it is told', () => {
  it('brings every record up to each target once and in order, and none behind it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.nat({ max: 60 }), { maxLength: 30 }),
        fc.array(fc.nat({ max: 70 }), { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 7 }),
        async (given, targets, pieceMax, recordsMax) => {
          const offsets = [...given].sort((a, b) => a - b);
          const source = await startAt(topicWith(offsets, pieceMax), 0);
          const seen: number[] = [];
          let reached = 0;
          for (const target of targets) {
            let next = reached;
            for (const batch of await takeUpTo(source, target, recordsMax)) {
              expect(batch.fromOffset).to.equal(next);
              next = batch.nextOffset;
              seen.push(...batch.records.map(({ offset }) => offset));
            }
            reached = Math.max(reached, target);
            expect(next).to.equal(reached);
            expect(seen).to.deep.equal(offsets.filter((offset) => offset < reached));
          }
        },
      ),
    );
  });

  it('waits where a transaction is open, and then leaves out nothing of it', async () => {
    let openFrom = 3;
    const source = await startAt(topicWith([0, 1, 3, 4, 5], 2, { openFrom: () => openFrom }), 0);
    const seen: number[] = [];
    const there = source.advanceTo([{ ...place, offset: 6 }], never);
    const takeUntil = (next: number) =>
      eventually(async () => {
        const taken = await source.take({ recordsMax: 10, waitMs: 1 });
        source.reportApplied(taken.map(({ nextOffset }) => ({ ...place, offset: nextOffset })));
        for (const { records } of taken) seen.push(...records.map(({ offset }) => offset));
        expect(source.applied[0]?.offset).to.equal(next);
      });
    await takeUntil(3);
    expect(await source.take({ recordsMax: 10, waitMs: 1 }), 'nothing is passed over').to.deep.equal([]);
    openFrom = 6;
    await takeUntil(6);
    await there;
    expect(seen).to.deep.equal([0, 1, 3, 4, 5]);
  });

  it('fails where records are gone that it was to bring, instead of passing over them', async () => {
    const whole = topicWith([0, 1, 2, 3], 2);
    const shortened: TopicReader = {
      ...whole,
      read: (range, options) => {
        if (options?.requireAll && range.start < 2) throw new RecordsGone('0 and 1 are gone');
        return whole.read({ ...range, start: Math.max(2, range.start) });
      },
    };
    const source = await startAt(shortened, 0);
    void source.advanceTo([{ ...place, offset: 4 }], never);
    const taken = await source.take({ recordsMax: 10, waitMs: 1 }).catch((error: unknown) => error);
    expect(taken).to.be.instanceOf(RecordsGone);
    source.reportApplied([{ ...place, offset: 4 }]);
  });

  it('reads again from where it is sent back to', async () => {
    const source = await startAt(topicWith([0, 1, 2, 3], 2), 0);
    void source.advanceTo([{ ...place, offset: 4 }], never);
    await source.take({ recordsMax: 3, waitMs: 1 });
    const reading = source.seek(place, 1);
    const [batch] = await source.take({ recordsMax: 10, waitMs: 1 });
    expect(batch?.reading).to.equal(reading);
    expect(batch?.records.map(({ offset }) => offset)).to.deep.equal([1, 2]);
    source.reportApplied([{ ...place, offset: 4 }]);
  });
});
