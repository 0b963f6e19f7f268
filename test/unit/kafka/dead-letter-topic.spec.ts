import { expect } from 'chai';
import { createDeadLetterTopics } from '../../../src/kafka/dead-letter-topic.ts';
import type { ReadRecord } from '../../../src/kafka/fetched-record.ts';
import { PublishError } from '../../../src/kafka/publish-error.ts';
import { sizeOfRecord } from '../../../src/kafka/record-batch.ts';
import type { RecordInParts, RecordProducer } from '../../../src/kafka/record-producer.ts';
import { measureRecordSet, RecordSetReader } from '../../../src/kafka/record-set.ts';
import type { DeadLetter } from '../../../src/streams/ports.ts';
import type { RawRecord } from '../../../src/streams/record.ts';
import { encodeBatch, type SpecRecord } from '../../support/record-batches.ts';

const projection = { name: 'order-view', version: 3 };

/** A broker that refuses what is too large for it, whole batches at once, as brokers do. */
const createSmallBroker = (recordBytesMax = Number.POSITIVE_INFINITY) => {
  const taken: { topic: string; record: RecordInParts }[] = [];
  let sends = 0;
  const producer: Pick<RecordProducer, 'send'> = {
    send: async (batches) => {
      sends++;
      const unacknowledged = [...batches].flatMap(([topic, records]) => {
        const isRefused = records.some((record) => sizeOfRecord(record) > recordBytesMax);
        if (!isRefused) taken.push(...records.map((record) => ({ topic, record: record as RecordInParts })));
        const positions = records.map((_, position) => position);
        return isRefused ? [{ topic, partition: 0, reason: 'MESSAGE_TOO_LARGE', isRefused, positions }] : [];
      });
      if (unacknowledged.length === 0) return;
      const cause = new Error('too large');
      throw new PublishError('RECORD_TOO_LARGE', { retriable: false, cause, unacknowledged });
    },
  };
  return { producer, taken, sends: () => sends };
};

const readOne = async (record: Omit<SpecRecord, 'offsetDelta'>): Promise<RawRecord> => {
  const set = measureRecordSet(
    await encodeBatch({ firstOffset: 17, records: [{ ...record, offsetDelta: 0 }] }),
  );
  if (!set) throw new Error('Nothing was read');
  const records: ReadRecord[] = [];
  new RecordSetReader(set, { fromOffset: 0, aborted: [] }).readInto(records, 1);
  return records[0] as RawRecord;
};

const letterOf = async (
  record: Omit<SpecRecord, 'offsetDelta'>,
  changes: Partial<DeadLetter> = {},
): Promise<DeadLetter> => ({
  place: { topic: 'order-events', partition: 2 },
  record: await readOne(record),
  kind: 'failed',
  error: new TypeError('no such order'),
  ...changes,
});

const headersOf = ({ sharedHeaders, headers }: RecordInParts) => ({
  original: sharedHeaders,
  cause: headers as Readonly<Record<string, string>>,
});

describe('dead-letter topic', () => {
  it('keeps key, bytes and headers, and tells the cause in further headers', async () => {
    const { producer, taken } = createSmallBroker();
    const headers = { a: [Buffer.from('1'), Buffer.from('2')], ce_id: Buffer.from('x') };
    const value = Buffer.from([0, 255, 1]);
    await createDeadLetterTopics(producer).send(projection, [
      await letterOf({ key: Buffer.from('o-1'), value, headers }),
    ]);
    expect(taken.map(({ topic }) => topic)).to.deep.equal(['order-events.dlq']);
    const record = taken[0]?.record as RecordInParts;
    expect(record.key?.toString()).to.equal('o-1');
    expect(record.value).to.deep.equal(value);
    const { original, cause } = headersOf(record);
    expect(original?.count).to.equal(3);
    expect(original?.bytes.toString('latin1')).to.match(/a.1.a.2.*ce_id.x/s);
    const { '__streams.errors.stacktrace': stack, '__millrace.failed-at': failedAt, ...rest } = cause;
    expect(stack).to.match(/^TypeError: no such order\n +at /);
    expect(new Date(failedAt ?? '').toISOString()).to.equal(failedAt);
    expect(rest).to.deep.equal({
      '__streams.errors.exception': 'TypeError',
      '__streams.errors.message': 'no such order',
      '__streams.errors.topic': 'order-events',
      '__streams.errors.partition': '2',
      '__streams.errors.offset': '17',
      '__millrace.projection': 'order-view',
      '__millrace.projection-version': '3',
      '__millrace.kind': 'failed',
    });
  });

  it('keeps what is missing missing', async () => {
    const { producer, taken } = createSmallBroker();
    await createDeadLetterTopics(producer).send(projection, [await letterOf({ key: null, value: null })]);
    expect(taken[0]?.record).to.include({ key: null, value: null });
    expect(taken[0]?.record.headers).not.to.have.property('__millrace.value-left-out');
  });

  it('does not repeat what an earlier letter of the same record said', async () => {
    const { producer, taken } = createSmallBroker();
    const headers = {
      '__millrace.replay': Buffer.from('{}'),
      '__streams.errors.message': Buffer.from('the first time'),
    };
    await createDeadLetterTopics(producer).send(projection, [
      await letterOf({ key: null, value: null, headers }),
    ]);
    const { original, cause } = headersOf(taken[0]?.record as RecordInParts);
    expect(original?.count).to.equal(1);
    expect(original?.bytes.toString()).to.include('__millrace.replay');
    expect(cause['__streams.errors.message']).to.equal('no such order');
  });

  it('takes records from elsewhere as well, such as those of a test driver', async () => {
    const { producer, taken } = createSmallBroker();
    const record: RawRecord = {
      offset: 1,
      timestampMs: 0,
      key: null,
      value: null,
      headers: { h: Buffer.from('v') },
      replay: undefined,
      bytes: Buffer.alloc(0),
      valueStart: -1,
      valueEnd: -1,
    };
    await createDeadLetterTopics(producer).send(projection, [
      await letterOf({ key: null, value: null }, { record }),
    ]);
    expect(headersOf(taken[0]?.record as RecordInParts).original?.count).to.equal(1);
  });

  it('goes to the topic beside each record', async () => {
    const { producer, taken, sends } = createSmallBroker();
    const place = { topic: 'like-events', partition: 0 };
    await createDeadLetterTopics(producer).send(projection, [
      await letterOf({ key: null, value: null }),
      await letterOf({ key: null, value: null }, { place }),
    ]);
    expect(taken.map(({ topic }) => topic).sort()).to.deep.equal(['like-events.dlq', 'order-events.dlq']);
    expect(sends()).to.equal(1);
  });

  describe('where the record is nearly as large as can be', () => {
    const value = Buffer.alloc(10_000);
    const wordy = (): Error => new Error(`because ${'of this and that '.repeat(500)}`);

    it('leaves the stack out, and most of the message', async () => {
      const { producer, taken } = createSmallBroker(10_800);
      const small = await letterOf({ key: Buffer.from('small'), value: Buffer.from('v') });
      const large = await letterOf({ key: Buffer.from('large'), value }, { error: wordy() });
      await createDeadLetterTopics(producer).send(projection, [small, large, small]);
      expect(taken.map(({ record }) => String(record.key))).to.deep.equal(['small', 'large', 'small']);
      const letter = taken[1]?.record as RecordInParts;
      expect(letter.value).to.deep.equal(value);
      const { cause } = headersOf(letter);
      expect(cause).not.to.have.property('__streams.errors.stacktrace');
      expect(cause['__streams.errors.message'])
        .to.match(/^because of this/)
        .and.to.have.length.below(200);
      expect(headersOf(taken[0]?.record as RecordInParts).cause).to.have.property(
        '__streams.errors.stacktrace',
      );
    });

    it('tells where the record is to be found when there is no room for it at all', async () => {
      const { producer, taken } = createSmallBroker(10_100);
      await createDeadLetterTopics(producer).send(projection, [
        await letterOf({ key: Buffer.from('k'), value }),
      ]);
      const letter = taken[0]?.record as RecordInParts;
      expect(letter.value).to.equal(null);
      expect(headersOf(letter).cause).to.include({
        '__millrace.value-left-out': '10000',
        '__streams.errors.offset': '17',
      });
    });

    it('fails when not even that is taken', async () => {
      const { producer, taken } = createSmallBroker(100);
      const sending = createDeadLetterTopics(producer).send(projection, [
        await letterOf({ key: null, value }),
      ]);
      expect(await sending.catch((error: Error) => error)).to.be.instanceOf(PublishError);
      expect(taken).to.deep.equal([]);
    });
  });

  it('fails when the broker does, and does not write less for that', async () => {
    const producer: Pick<RecordProducer, 'send'> = {
      send: () =>
        Promise.reject(new PublishError('BROKER_UNAVAILABLE', { retriable: true, cause: new Error('away') })),
    };
    const sending = createDeadLetterTopics(producer).send(projection, [
      await letterOf({ key: null, value: null }),
    ]);
    expect(await sending.catch((error: PublishError) => error.code)).to.equal('BROKER_UNAVAILABLE');
  });
});
