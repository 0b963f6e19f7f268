import { expect } from 'chai';
import { CompressionTypes } from 'kafkajs';
import { frame } from '../../../src/avro/confluent-frame.ts';
import { avroDir, subjectOf } from '../../../src/avro/envelope-schema.ts';
import { letterId } from '../../../src/dlq-admin/letter-id.ts';
import type { ListRequest } from '../../../src/dlq-admin/list-letters.ts';
import { TopicReadError } from '../../../src/kafka/topic-reader.ts';
import { OperatorError } from '../../../src/operator-error.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { readGoldenEvents } from '../../../src/schema-evolution/golden-events.ts';
import { readReleases } from '../../../src/schema-evolution/released-history.ts';
import {
  type DeadLetterDesk,
  forgetDecisions,
  openDeadLetterDesk,
  parkKey,
  writeLetters,
  writeMessage,
} from '../../support/dead-letters.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';
import '../../support/zstd-producer.ts';

const minute = 60_000;

describe('looking at dead letters', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let db: Database;
  let desk: DeadLetterDesk;
  before(async () => {
    db = openTestDatabase(workspace());
    desk = await openDeadLetterDesk(workspace(), db);
  });
  beforeEach(() => forgetDecisions(db));

  const ids = async (request: Partial<ListRequest>): Promise<string[]> =>
    (await desk.admin.list({ limit: 1000, ...request })).letters.map(({ letter }) =>
      letterId(desk.admin.topics, letter.place),
    );
  const write = (letters: Parameters<typeof writeLetters>[1]) => writeLetters(workspace(), letters);

  describe('list', () => {
    it('finds letters by topic, projection, kind, cause, key and time', async () => {
      const now = Date.now();
      const [a, b, c, d] = await write([
        { key: 'find-a', projection: 'product-statistic', kind: 'undecodable' },
        { key: 'find-b', projection: 'product-trend', exception: 'RangeError', message: 'Too Many (17)' },
        { key: 'find-c', topic: 'order-events', kind: 'parked', failedAt: new Date(now - 10 * minute) },
        { key: 'find-d', topic: 'order-events', failedAt: new Date(now - 20 * minute) },
      ]);
      const since = new Date(now - minute);
      expect(await ids({ since })).to.deep.equal([a, b]);
      expect(await ids({ topic: 'like-events', since })).to.deep.equal([a, b]);
      expect(await ids({ topic: 'order-events' })).to.deep.equal([c, d]);
      expect(await ids({ topic: 'payment-events' })).to.deep.equal([]);
      expect(await ids({ projection: 'product-trend' })).to.deep.equal([b]);
      expect(await ids({ kind: 'parked' })).to.deep.equal([c]);
      expect(await ids({ exception: 'rangeerror' })).to.deep.equal([b]);
      expect(await ids({ exception: 'too many' })).to.deep.equal([b]);
      expect(await ids({ key: 'find-d' })).to.deep.equal([d]);
      const until = new Date(now - 5 * minute);
      expect(await ids({ until, since: new Date(now - 15 * minute) })).to.deep.equal([c]);
      expect(await ids({ until, topic: 'order-events', kind: 'failed' })).to.deep.equal([d]);
    });

    it('reads letters that are packed with zstd', async () => {
      const since = new Date();
      const written = await writeLetters(
        workspace(),
        [
          { key: 'packed-a', topic: 'order-events' },
          { key: 'packed-b', topic: 'order-events' },
        ],
        CompressionTypes.ZSTD,
      );
      expect(await ids({ topic: 'order-events', since })).to.deep.equal(written);
      expect(await ids({ topic: 'order-events', key: 'packed-b' })).to.deep.equal(written.slice(1));
    });

    it('tells of each letter what its headers say', async () => {
      const failedAt = new Date('2026-05-01T10:00:00.123Z');
      await write([{ key: 'told', partition: 2, offset: 41, failedAt, value: Buffer.alloc(7), version: 3 }]);
      const { letters } = await desk.admin.list({ limit: 1, key: 'told' });
      expect(letters[0]?.decision).to.equal(undefined);
      expect(letters[0]?.letter).to.deep.include({
        projection: 'product-statistic',
        projectionVersion: 3,
        kind: 'failed',
        exception: 'DecodingError',
        message: 'The record does not start with the 5-byte schema header',
        key: 'told',
        original: { topic: workspace().unique('like-events'), partition: 2, offset: 41 },
        replays: 0,
        failedAt,
        valueBytes: 7,
      });
    });

    it('stops at the limit and says that there is more', async () => {
      const [first, second] = await write([{ key: 'many' }, { key: 'many' }, { key: 'many' }]);
      const some = await desk.admin.list({ key: 'many', limit: 2 });
      expect(some.more).to.equal(true);
      expect(some.letters.map(({ letter }) => letterId(desk.admin.topics, letter.place))).to.deep.equal([
        first,
        second,
      ]);
      expect(await desk.admin.list({ key: 'many', limit: 3 })).to.include({ more: false });
    });

    it('leaves out what is decided, unless everything is asked for', async () => {
      const [kept = '', dropped = ''] = await write([
        { key: 'decided', offset: 1 },
        { key: 'decided', offset: 2 },
      ]);
      await desk.admin.drop(
        { by: 'ids', places: [desk.place(dropped)] },
        { who: 'cli:ann@desk', dryRun: false },
      );
      expect(await ids({ key: 'decided' })).to.deep.equal([kept]);
      const all = await desk.admin.list({ key: 'decided', all: true, limit: 9 });
      expect(all.letters.map(({ decision }) => decision?.decision)).to.deep.equal([undefined, 'dropped']);
    });

    it('shows what others have put there, too', async () => {
      const offset = await writeMessage(workspace(), 'stock-events.dlq', { key: null, value: null });
      const { letters } = await desk.admin.list({ topic: 'stock-events', limit: 9 });
      expect(letters[0]?.letter).to.deep.include({
        place: { topic: workspace().unique('stock-events.dlq'), partition: 0, offset },
        projection: null,
        original: null,
        kind: null,
        exception: 'unknown',
        key: null,
        valueBytes: null,
      });
    });

    it('does not believe a letter that tells of another topic', async () => {
      await writeMessage(workspace(), 'stock-events.dlq', {
        key: 'liar',
        value: null,
        headers: {
          '__streams.errors.topic': workspace().unique('order-events'),
          '__streams.errors.partition': '0',
          '__streams.errors.offset': '0',
          '__millrace.projection': 'product-statistic',
        },
      });
      const { letters } = await desk.admin.list({ key: 'liar', limit: 9 });
      expect(letters[0]?.letter.original).to.equal(null);
    });
  });

  describe('stats', () => {
    it('count letters by topic, projection and the shape of their cause', async () => {
      const at = (second: number) => new Date(Date.UTC(2026, 1, 1, 0, 0, second));
      const cause = { topic: 'payment-events', exception: 'RangeError' };
      const written = await write([
        { ...cause, message: 'Order 17 of "ann" is not 18', failedAt: at(5) },
        { ...cause, message: 'Order 99 of "bob" is not 1', failedAt: at(1) },
        { ...cause, message: 'Order 99 of "bob" is not 1', failedAt: at(9), projection: 'order-view' },
        { ...cause, message: 'Something else', failedAt: at(3) },
      ]);
      const { letters, oldestAt, causes } = await desk.admin.stats({ topic: 'payment-events' });
      expect(letters).to.equal(4);
      expect(oldestAt).to.deep.equal(at(1));
      expect(causes[0]).to.deep.equal({
        topic: 'payment-events',
        projection: 'product-statistic',
        exception: 'RangeError',
        message: 'Order <n> of <text> is not <n>',
        letters: 2,
        oldestAt: at(1),
        newestAt: at(5),
        example: desk.place(written[0] ?? ''),
      });
      expect(causes.map((one) => one.letters)).to.deep.equal([2, 1, 1]);
    });

    it('are empty when there is nothing, and tell how far they are', async () => {
      const steps: unknown[] = [];
      const onProgress = (step: unknown) => void steps.push(step);
      const empty = await desk.admin.stats({ key: 'of nobody' }, { onProgress });
      expect(empty).to.deep.equal({ letters: 0, oldestAt: null, causes: [] });
      const last = steps.at(-1) as { done: number; total: number };
      expect(last.done).to.equal(last.total).and.to.be.greaterThan(0);
    });
  });

  describe('show', () => {
    it('decodes the record as the version of today would have written it', async () => {
      const golden = readGoldenEvents(avroDir).get('loopers.product.registered.v1/1-in-stock.json');
      const release = readReleases(avroDir).find(({ fullName }) => fullName === golden?.record);
      if (!golden || !release) throw new Error('No golden event of v1');
      const schemaId = await desk.registry.idOf(subjectOf('stock-events', release.fullName), release.json);
      const value = frame(schemaId, Buffer.from(golden.bytes, 'hex'));
      const [id = ''] = await write([{ topic: 'stock-events', value, headers: { ce_type: 'registered' } }]);
      const shown = await desk.admin.show(desk.place(id));
      expect(shown?.value).to.deep.equal({ envelope: golden.envelope });
      expect(golden.envelope.type, 'upcast').to.equal('loopers.product.registered.v2');
      expect(shown?.headers).to.deep.equal([{ name: 'ce_type', value: 'registered', isText: true }]);
      expect(shown?.stack).to.match(/^DecodingError: no header\n {4}at decode/);
    });

    it('gives the bytes and the reason where the record cannot be read', async () => {
      const bytes = Buffer.from([0, 0, 15, 66, 63, 1, 2]);
      const [id = ''] = await write([{ value: bytes, headers: { binary: Buffer.from([0xff, 0xfe]) } }]);
      const shown = await desk.admin.show(desk.place(id));
      expect(shown?.value).to.deep.equal({ unreadable: 'The registry has no schema 999999', bytes });
      expect(shown?.headers).to.deep.equal([{ name: 'binary', value: 'fffe', isText: false }]);
    });

    it('shows what is known while the registry does not answer', async () => {
      const away = desk.with({ readValue: () => Promise.reject(new Error('connect ECONNREFUSED')) });
      const [id = ''] = await write([{ value: Buffer.from('x') }]);
      const shown = await away.show(desk.place(id));
      expect(shown?.value).to.deep.equal({ unreadable: 'connect ECONNREFUSED', bytes: Buffer.from('x') });
    });

    it('knows tombstones, parked keys and letters that are not there', async () => {
      const [id = ''] = await write([{ key: 'still', value: null }]);
      await parkKey(workspace(), db, { key: 'still', records: 1 });
      const shown = await desk.admin.show(desk.place(id));
      expect(shown).to.deep.include({ value: null, isParked: true, history: [] });
      expect(await desk.admin.show(desk.place('like-events@999999'))).to.equal(undefined);
      expect(await desk.admin.show(desk.place('like-events/7@0'))).to.equal(undefined);
    });
  });

  it('says it when the brokers cannot be reached', async () => {
    const away = desk.with({ openReader: () => Promise.reject(new TopicReadError('Kafka cannot be read')) });
    const failure = await away.list({ limit: 1 }).then(
      () => undefined,
      (error: Error) => error,
    );
    expect(failure).to.be.instanceOf(OperatorError).and.to.have.property('message', 'Kafka cannot be read');
  });
});
