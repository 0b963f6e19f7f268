import { expect } from 'chai';
import { toDeadLetter } from '../../../src/dlq-admin/dead-letter.ts';
import { readLeftOutValues } from '../../../src/dlq-admin/left-out-values.ts';
import { deadLetterHeaders } from '../../../src/kafka/dead-letter-headers.ts';
import type { StoredRecord, TopicReader } from '../../../src/kafka/topic-reader.ts';

const value = Buffer.from('too large for a letter');
const record = (over: Partial<StoredRecord>): StoredRecord => ({
  offset: 0,
  timestampMs: 1,
  key: Buffer.from('p-1'),
  value: null,
  headers: [],
  ...over,
});
const letter = toDeadLetter(
  { topic: 'like-events.dlq', partition: 0 },
  record({
    headers: Object.entries({
      [deadLetterHeaders.projection]: 'product-statistic',
      [deadLetterHeaders.topic]: 'like-events',
      [deadLetterHeaders.partition]: '0',
      [deadLetterHeaders.offset]: '7',
      [deadLetterHeaders.valueLeftOut]: String(value.length),
    }).map(([name, text]) => [name, Buffer.from(text)] as const),
  }),
);

/** A topic with one record, at the letter's offset. */
const readerOf = (only: StoredRecord): TopicReader => ({
  ranges: async () => [{ topic: 'like-events', partition: 0, start: 0, end: 20 }],
  read: async function* ({ end }) {
    yield [only];
    return end;
  },
  close: async () => {},
});

describe('a value that was left out of a letter', () => {
  const found = async (only: StoredRecord) => (await readLeftOutValues(readerOf(only), [letter])).get(letter);

  it('is found where the record stands', async () => {
    expect(await found(record({ offset: 7, value }))).to.deep.equal(value);
  });

  it('is gone where the topic was made anew and has another record there', async () => {
    expect(await found(record({ offset: 7, value: Buffer.from('another') }))).to.equal(undefined);
    expect(await found(record({ offset: 7, value, key: Buffer.from('p-2') }))).to.equal(undefined);
  });
});
