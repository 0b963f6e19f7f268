import { expect } from 'chai';
import type { Busy, ReplayReport } from '../../../src/dlq-admin/dlq-admin.ts';
import { letterId } from '../../../src/dlq-admin/letter-id.ts';
import type { LetterSelection } from '../../../src/dlq-admin/select-letters.ts';
import { createKafka } from '../../../src/kafka/create-kafka.ts';
import type { RecordProducer } from '../../../src/kafka/record-producer.ts';
import { connectTopicReader } from '../../../src/kafka/topic-reader.ts';
import type { Database } from '../../../src/postgres/database.ts';
import {
  type DeadLetterDesk,
  decisionRows,
  forgetDecisions,
  moveCheckpoint,
  openDeadLetterDesk,
  parkedKeys,
  parkKey,
  writeLetters,
  writeMessage,
} from '../../support/dead-letters.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { auditRows } from '../../support/outbox-admin.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const forReal = { who: 'cli:ann@desk', dryRun: false, force: false };
const dryRun = { ...forReal, dryRun: true };
const forced = { ...forReal, force: true };

interface Sent {
  readonly partition: number;
  readonly offset: number;
  readonly key: string | null;
  readonly value: string | null;
  readonly headers: Readonly<Record<string, string>>;
}

describe('replaying dead letters', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let db: Database;
  let desk: DeadLetterDesk;
  /** Where the topics ended when the test began. */
  let begun: ReadonlyMap<string, number>;
  before(async () => {
    db = openTestDatabase(workspace());
    desk = await openDeadLetterDesk(workspace(), db);
  });

  const withReader = async <T>(
    routine: (reader: Awaited<ReturnType<typeof connectTopicReader>>) => Promise<T>,
  ) => {
    const reader = await connectTopicReader(
      createKafka({
        brokers: [...workspace().endpoints.kafkaBrokers],
        clientId: 'spec',
        connectTimeoutMs: 5000,
        requestTimeoutMs: 20_000,
        retriesMax: 100,
        retryDelayMs: 100,
        log: silentLog(),
      }),
    );
    return routine(reader).finally(() => reader.close());
  };
  const topicNames = () => ['like-events', 'order-events'].map((name) => workspace().unique(name));

  beforeEach(async () => {
    await forgetDecisions(db);
    const ranges = await withReader((reader) => reader.ranges(topicNames()));
    begun = new Map(ranges.map(({ topic, partition, end }) => [`${topic}/${partition}`, end]));
  });

  /** What came to a topic since the test began. */
  const sentTo = (name: string): Promise<readonly Sent[]> =>
    withReader(async (reader) => {
      const sent: Sent[] = [];
      for (const range of await reader.ranges([workspace().unique(name)])) {
        const start = begun.get(`${range.topic}/${range.partition}`) ?? 0;
        for await (const records of reader.read({ ...range, start })) {
          for (const { offset, key, value, headers } of records)
            sent.push({
              partition: range.partition,
              offset,
              key: key?.toString() ?? null,
              value: value?.toString() ?? null,
              headers: Object.fromEntries(headers.map(([header, text]) => [header, String(text)])),
            });
        }
      }
      return sent;
    });

  const write = (letters: Parameters<typeof writeLetters>[1]) => writeLetters(workspace(), letters);
  const byIds = (...ids: readonly (string | undefined)[]): LetterSelection => ({
    by: 'ids',
    places: ids.map((id) => desk.place(id ?? '')),
  });
  const reported = (report: ReplayReport | Busy): ReplayReport => {
    if (report.outcome === 'busy') throw new Error('Somebody else is at it');
    return report;
  };
  const replay = async (selection: LetterSelection, options = forReal): Promise<ReplayReport> =>
    reported(await desk.admin.replay(selection, options));
  const openIds = async (key: string): Promise<string[]> =>
    (await desk.admin.list({ key, limit: 1000 })).letters.map(({ letter }) =>
      letterId(desk.admin.topics, letter.place),
    );
  const markOf = ({ headers }: Sent | undefined = { headers: {} } as Sent) =>
    JSON.parse(headers['__millrace.replay'] ?? 'null') as unknown;

  describe('a letter', () => {
    it('goes to the topic and partition it came from, as it was, with the mark first', async () => {
      const [id] = await write([
        {
          key: 'as-it-was',
          partition: 2,
          offset: 41,
          value: Buffer.from('bytes'),
          headers: { ce_type: 'liked', ce_id: '1' },
        },
      ]);
      const report = await replay(byIds(id));
      expect(report).to.include({ outcome: 'replayed', more: false });
      expect(report.letters).to.have.length(1);
      const [sent, ...others] = await sentTo('like-events');
      expect(others).to.deep.equal([]);
      expect(sent).to.deep.include({ partition: 2, key: 'as-it-was', value: 'bytes' });
      expect(Object.keys(sent?.headers ?? {})).to.deep.equal([
        '__millrace.replay',
        '__millrace.first-offset',
        'ce_type',
        'ce_id',
      ]);
      expect(markOf(sent)).to.deep.equal({
        id: report.replayId,
        projection: 'product-statistic',
        attempt: 1,
      });
      expect(sent?.headers).to.include({ '__millrace.first-offset': '41', ce_type: 'liked' });
    });

    it('goes where it came from, whatever its key says', async () => {
      const ids = await write(
        [0, 1, 2].map((partition) => ({ key: 'anywhere', partition, offset: partition })),
      );
      await replay(byIds(...ids));
      expect((await sentTo('like-events')).map(({ partition }) => partition)).to.deep.equal([0, 1, 2]);
    });

    it('keeps headers that come twice', async () => {
      const [id] = await write([{ key: 'headers', headers: { twice: ['1', '2'] } }]);
      await replay(byIds(id));
      const all = await withReader(async (reader) => {
        const [range] = await reader.ranges([workspace().unique('like-events')]);
        if (!range) throw new Error('no topic');
        for await (const records of reader.read({ ...range, start: range.end - 1 }))
          return records[0]?.headers.map(([name, value]) => `${name}=${value}`).slice(2);
        return undefined;
      });
      expect(all).to.deep.equal(['twice=1', 'twice=2']);
    });

    it('is decided from then on, and the audit tells by whom', async () => {
      const [id] = await write([{ key: 'decided-on' }]);
      const { replayId } = await replay(byIds(id));
      expect(await openIds('decided-on')).to.deep.equal([]);
      const { place } = { place: desk.place(id ?? '') };
      expect(await decisionRows(db)).to.deep.equal([
        {
          dlqOffset: place.offset,
          decision: 'replayed',
          attempt: 1,
          replayId,
          who: forReal.who,
          isDone: true,
          originalOffset: 0,
          key: 'decided-on',
        },
      ]);
      expect(await auditRows(db)).to.deep.equal([
        { who: forReal.who, action: 'dead-letters.replay', target: { replayId, letters: [id] } },
      ]);
    });

    it('may have neither key nor value', async () => {
      const [id] = await write([{ key: null, value: null, partition: 1 }]);
      await replay(byIds(id));
      expect(await sentTo('like-events')).to.have.nested.property('[0].key', null);
      expect(await sentTo('like-events')).to.have.nested.property('[0].value', null);
    });

    it('may have a key that no text can hold', async () => {
      const [id] = await write([{ key: Buffer.from([0, 1, 0xff]), partition: 1 }]);
      await replay(byIds(id));
      const [row] = await decisionRows(db);
      expect(row).to.deep.include({ isDone: true, key: '\uFFFD\u0001\uFFFD' });
    });

    it('is only talked about in a dry run', async () => {
      const [id] = await write([{ key: 'talk' }]);
      const report = await replay(byIds(id), dryRun);
      expect(report).to.deep.include({ outcome: 'would-replay', replayId: null, refused: [] });
      expect(report.letters).to.have.length(1);
      expect(await sentTo('like-events')).to.deep.equal([]);
      expect(await decisionRows(db)).to.deep.equal([]);
      expect(await auditRows(db)).to.deep.equal([]);
    });

    it('that was decided about is refused, and all that were named with it', async () => {
      const [id, other] = await write([
        { key: 'twice', offset: 1 },
        { key: 'twice', offset: 2 },
      ]);
      await replay(byIds(id));
      const report = await replay(byIds(id, other, 'like-events@999999'));
      expect(report.outcome).to.equal('refused');
      expect(report.refused.map(({ reason, letters }) => [reason, letters])).to.have.deep.members([
        ['decided', 1],
        ['missing', 1],
      ]);
      expect(await sentTo('like-events')).to.have.length(1);
      expect(await replay(byIds(id), forced)).to.include({ outcome: 'replayed' });
      expect(await sentTo('like-events')).to.have.length(2);
    });

    it('that is not ours is refused', async () => {
      const offset = await writeMessage(workspace(), 'like-events.dlq', { key: 'foreign', value: null });
      const report = await replay(byIds(`like-events@${offset}`), forced);
      expect(report.refused).to.deep.include({
        reason: 'foreign',
        letters: 1,
        examples: [desk.place(`like-events@${offset}`)],
        projection: null,
        topic: null,
        key: 'foreign',
      });
    });

    it('written twice is replayed once', async () => {
      const letter = { key: 'twin', offset: 5 };
      const [first, second] = await write([letter, { ...letter }]);
      expect((await replay(byIds(first))).outcome).to.equal('replayed');
      expect(await openIds('twin')).to.deep.equal([]);
      expect((await replay(byIds(second))).refused).to.have.nested.property('[0].reason', 'decided');
    });
  });

  describe('a record that came back', () => {
    const cameBack = (attempt: number) => ({
      key: 'back',
      offset: 88,
      headers: {
        '__millrace.replay': JSON.stringify({ id: 'earlier', projection: 'product-statistic', attempt }),
        '__millrace.first-offset': '41',
        ce_type: 'liked',
      },
    });

    it('has a new mark, and keeps the place it had at first', async () => {
      const [id] = await write([cameBack(1)]);
      const { replayId } = await replay(byIds(id));
      const [sent] = await sentTo('like-events');
      expect(markOf(sent)).to.deep.equal({ id: replayId, projection: 'product-statistic', attempt: 2 });
      expect(sent?.headers).to.include({ '__millrace.first-offset': '41' });
    });

    it('has a history', async () => {
      const [first = ''] = await write([{ key: 'back', offset: 41 }]);
      await replay(byIds(first));
      const [second = ''] = await write([cameBack(1)]);
      await desk.admin.drop(byIds(second), forReal);
      const shown = await desk.admin.show(desk.place(second));
      expect(shown?.history.map(({ decision, attempt }) => [attempt, decision])).to.deep.equal([
        [1, 'replayed'],
        [2, 'dropped'],
      ]);
    });

    it('is not replayed more often than is allowed, unless it is forced', async () => {
      const [fourth, fifth] = await write([cameBack(4), cameBack(5)]);
      expect((await replay(byIds(fourth))).outcome).to.equal('replayed');
      const report = await replay(byIds(fifth));
      expect(report.refused).to.have.nested.property('[0].reason', 'too-often');
      expect((await replay(byIds(fifth), forced)).outcome).to.equal('replayed');
      expect((await sentTo('like-events')).map(markOf)).to.have.nested.property('[1].attempt', 6);
    });
  });

  describe('by filter', () => {
    it('takes what can be and leaves the letters of parked keys, saying so', async () => {
      const message = 'by filter';
      const [a, b] = await write([
        { key: 'free-1', message, offset: 10 },
        { key: 'free-2', message, offset: 11, partition: 1 },
        { key: 'stuck', message, offset: 12 },
        { key: 'stuck', message, offset: 13, kind: 'parked' },
        { key: 'released', message, offset: 14, kind: 'parked' },
      ]);
      await parkKey(workspace(), db, { key: 'stuck', records: 2 });
      const selection: LetterSelection = { by: 'filter', filter: { exception: message }, limit: 100 };
      const report = await replay(selection);
      expect(report.letters.map(({ key }) => key)).to.deep.equal(['free-1', 'free-2']);
      expect(report.refused.map(({ reason, key, letters }) => [reason, key, letters])).to.deep.equal([
        ['parked', 'stuck', 2],
        ['parked', 'released', 1],
      ]);
      expect((await sentTo('like-events')).map(({ key }) => key)).to.have.members(['free-1', 'free-2']);
      const [audit] = await auditRows(db);
      expect(audit?.target).to.deep.include({
        chosenBy: { by: 'filter', filter: { exception: message }, limit: 100 },
        letters: [a, b],
      });
      expect((await replay(selection)).letters, 'a second time').to.deep.equal([]);
    });

    it('takes no more than the limit; the rest can be next', async () => {
      await write(
        Array.from({ length: 5 }, (_, i) => ({ key: 'limited', offset: 20 + i, message: 'limited' })),
      );
      const some: LetterSelection = { by: 'filter', filter: { exception: 'limited' }, limit: 3 };
      expect((await replay(some)).more).to.equal(true);
      expect(await sentTo('like-events')).to.have.length(3);
      expect((await replay(some)).more).to.equal(false);
      expect(
        (await sentTo('like-events')).map(({ headers }) => headers['__millrace.first-offset']),
      ).to.deep.equal(['20', '21', '22', '23', '24']);
    });

    it('replays a record for each projection that has a letter of it', async () => {
      await write([
        { key: 'shared', offset: 7, message: 'shared', projection: 'product-statistic' },
        { key: 'shared', offset: 7, message: 'shared', projection: 'product-trend' },
      ]);
      await replay({ by: 'filter', filter: { exception: 'shared' }, limit: 10 });
      const marks = (await sentTo('like-events')).map(markOf) as { projection: string }[];
      expect(marks.map(({ projection }) => projection)).to.have.members([
        'product-statistic',
        'product-trend',
      ]);
    });

    it('sends more letters than it holds at a time, in their order', async () => {
      const count = 1201;
      await write(
        Array.from({ length: count }, (_, i) => ({ key: 'lots', offset: 1000 + i, message: 'lots of them' })),
      );
      const steps: unknown[] = [];
      const report = reported(
        await desk.admin.replay(
          { by: 'filter', filter: { exception: 'lots of them' }, limit: 10_000 },
          { ...forReal, onProgress: (step) => steps.push(step) },
        ),
      );
      expect(report.letters).to.have.length(count);
      expect(
        (await sentTo('like-events')).map(({ headers }) => Number(headers['__millrace.first-offset'])),
      ).to.deep.equal(Array.from({ length: count }, (_, i) => 1000 + i));
      expect(steps.at(-1)).to.deep.equal({ doing: 'replaying', done: count, total: count });
      const rows = await decisionRows(db);
      expect(rows.filter(({ isDone, replayId }) => isDone && replayId === report.replayId)).to.have.length(
        count,
      );
    });
  });

  describe('a key', () => {
    const key = 'in-order';

    it('that is parked is not replayed letter by letter', async () => {
      const [id] = await write([{ key: 'parked-one', offset: 3, partition: 1 }]);
      await parkKey(workspace(), db, { key: 'parked-one', records: 1, partition: 1 });
      for (const options of [forReal, forced, dryRun]) {
        const report = await replay(byIds(id), options);
        expect(report).to.include({ outcome: 'refused' });
        expect(report.refused).to.deep.equal([
          {
            reason: 'parked',
            letters: 1,
            examples: [desk.place(id ?? '')],
            projection: 'product-statistic',
            topic: workspace().unique('like-events'),
            key: 'parked-one',
          },
        ]);
      }
      expect(await sentTo('like-events')).to.deep.equal([]);
    });

    it('is replayed whole, in the order in which its records came at first', async () => {
      const again = (first: number) => ({
        '__millrace.replay': JSON.stringify({ id: 'x', projection: 'product-statistic', attempt: 1 }),
        '__millrace.first-offset': String(first),
      });
      await write([
        { key, offset: 19, kind: 'parked', value: Buffer.from('third') },
        { key, offset: 20, headers: again(10), value: Buffer.from('first') },
        { key, offset: 21, kind: 'parked', headers: again(11), value: Buffer.from('second') },
        { key, offset: 22, kind: 'parked', value: Buffer.from('fourth') },
        { key: 'another', offset: 12, value: Buffer.from('not this') },
      ]);
      await parkKey(workspace(), db, { key, records: 4 });
      const report = await replay({ by: 'key', key });
      expect(report.refused).to.deep.equal([]);
      const sent = await sentTo('like-events');
      expect(sent.map(({ value }) => value)).to.deep.equal(['first', 'second', 'third', 'fourth']);
      expect(new Set(sent.map((one) => (markOf(one) as { id: string }).id))).to.deep.equal(
        new Set([report.replayId]),
      );
      expect(await parkedKeys(db), 'the engine takes them off, once they are through').to.deep.equal([
        { key, records: 4 },
      ]);
      expect(await openIds(key)).to.deep.equal([]);
    });

    it('can be meant of one topic and one projection only', async () => {
      await write([
        { key: 'mine', topic: 'like-events', projection: 'a' },
        { key: 'mine', topic: 'like-events', projection: 'b' },
        { key: 'mine', topic: 'order-events', projection: 'a' },
      ]);
      await replay({ by: 'key', key: 'mine', topic: 'like-events', projection: 'b' });
      expect((await sentTo('like-events')).map(markOf)).to.have.nested.property('[0].projection', 'b');
      expect(await sentTo('order-events')).to.deep.equal([]);
      await replay({ by: 'key', key: 'mine' });
      expect(await sentTo('like-events')).to.have.length(2);
      expect(await sentTo('order-events')).to.have.length(1);
    });

    it('waits as a whole when one of its records has been replayed too often', async () => {
      const mark = JSON.stringify({ id: 'x', projection: 'product-statistic', attempt: 5 });
      await write([
        { key: 'worn', offset: 30, headers: { '__millrace.replay': mark } },
        { key: 'worn', offset: 31, kind: 'parked' },
        { key: 'worn', offset: 32, kind: 'parked', projection: 'product-trend' },
      ]);
      const report = await replay({ by: 'key', key: 'worn' });
      expect(report.refused.map(({ reason, letters }) => [reason, letters])).to.deep.equal([
        ['too-often', 2],
      ]);
      expect((await sentTo('like-events')).map(markOf)).to.have.nested.property(
        '[0].projection',
        'product-trend',
      );
      expect((await replay({ by: 'key', key: 'worn' }, forced)).letters).to.have.length(2);
    });
  });

  describe('a key that waits for nothing', () => {
    const key = 'forgotten';
    const end = () => begun.get(`${workspace().unique('like-events')}/0`) ?? 0;

    it('goes on once everything is through, and the audit tells it', async () => {
      await parkKey(workspace(), db, { key, records: 2 });
      await moveCheckpoint(workspace(), db, { nextOffset: end() });
      const talk = await replay({ by: 'key', key }, dryRun);
      expect(talk).to.include({ outcome: 'would-replay', releasedKeys: 1 });
      expect(await parkedKeys(db)).to.have.length(1);
      const report = await replay({ by: 'key', key, topic: 'like-events' });
      expect(report).to.include({ outcome: 'replayed', releasedKeys: 1, replayId: null });
      expect(await parkedKeys(db)).to.deep.equal([]);
      expect((await auditRows(db)).map(({ action }) => action)).to.deep.equal(['dead-letters.release']);
    });

    it('waits while its projection has not come to the end', async () => {
      await parkKey(workspace(), db, { key, records: 2 });
      await moveCheckpoint(workspace(), db, { nextOffset: end() - 1 });
      let looks = 0;
      const catchingUp: Database = {
        ...db,
        execute: async (statement, values) => {
          if (statement.name === 'find-parked-key-with-checkpoints' && ++looks === 4)
            await moveCheckpoint(workspace(), db, { nextOffset: end() });
          return db.execute(statement, values);
        },
      };
      const report = reported(await desk.with({ database: catchingUp }).replay({ by: 'key', key }, forReal));
      expect(report.releasedKeys).to.equal(1);
      expect(looks, 'looks until it was there').to.equal(4);
    });

    it('stays parked while its projection does not get there', async () => {
      await parkKey(workspace(), db, { key, records: 2 });
      await moveCheckpoint(workspace(), db, { nextOffset: end() - 1 });
      expect((await replay({ by: 'key', key })).releasedKeys).to.equal(0);
      expect(await parkedKeys(db)).to.deep.equal([{ key, records: 2 }]);
    });

    it('does not go on over a letter that is open, nor when its count has changed meanwhile', async () => {
      await moveCheckpoint(workspace(), db, { nextOffset: end() });
      const parkedElsewhere = { key: 'not-forgotten', records: 1 };
      await parkKey(workspace(), db, parkedElsewhere);
      const mark = JSON.stringify({ id: 'x', projection: 'product-statistic', attempt: 9 });
      await write([{ key: 'not-forgotten', offset: 1, headers: { '__millrace.replay': mark } }]);
      const report = await replay({ by: 'key', key: 'not-forgotten' });
      expect(report.refused).to.have.nested.property('[0].reason', 'too-often');
      expect(report.releasedKeys).to.equal(0);

      await parkKey(workspace(), db, { key, records: 2 });
      const another: Database = {
        ...db,
        transaction: (routine) =>
          db.transaction(async (tx) =>
            routine({
              ...tx,
              execute: async (statement, values) => {
                // Just before, a record of the key is parked.
                if (statement.name === 'release-parked-key')
                  await db.execute({
                    name: 'spec-one-more',
                    text: `update projection_parked_key set records = records + 1 where key = 'forgotten'`,
                  });
                return tx.execute(statement, values);
              },
            }),
          ),
      };
      const raced = reported(await desk.with({ database: another }).replay({ by: 'key', key }, forReal));
      expect(raced.releasedKeys).to.equal(0);
      expect(await parkedKeys(db)).to.deep.include({ key, records: 3 });
    });
  });

  describe('a letter without its value', () => {
    const left = (key: string, offset: number) => ({
      key,
      value: null,
      offset,
      headers: { '__millrace.value-left-out': '7' },
    });

    it('takes it from the topic, where it is still', async () => {
      const offset = await writeMessage(workspace(), 'like-events', {
        key: 'large',
        value: Buffer.from('7 bytes'),
        partition: 0,
      });
      const [id = ''] = await write([left('large', offset)]);
      expect((await desk.admin.show(desk.place(id)))?.value)
        .to.have.property('bytes')
        .that.deep.equals(Buffer.from('7 bytes'));
      expect((await replay(byIds(id))).outcome).to.equal('replayed');
      const [, sent] = await sentTo('like-events');
      expect(sent).to.deep.include({ value: '7 bytes', partition: 0 });
      expect(sent?.headers).not.to.have.property('__millrace.value-left-out');
    });

    it('is refused when the topic does not have it any more, and its key with it', async () => {
      const [id = ''] = await write([
        left('larger', 999_999),
        { key: 'larger', offset: 1_000_000, kind: 'parked' },
      ]);
      expect((await replay(byIds(id), forced)).refused).to.have.nested.property('[0].reason', 'value-gone');
      expect((await desk.admin.show(desk.place(id)))?.value)
        .to.have.property('unreadable')
        .that.matches(/too large/);
      const report = await replay({ by: 'key', key: 'larger' });
      expect(report.refused).to.have.nested.property('[0].letters', 2);
      expect(await sentTo('like-events')).to.deep.equal([]);
    });
  });

  describe('when something breaks', () => {
    type Send = (real: RecordProducer, ...args: Parameters<RecordProducer['send']>) => Promise<void>;
    /** The tools with a producer that does what it is told, with a real one at hand. */
    const sendingBy = (send: Send) =>
      desk.with({
        openProducer: () => {
          const real = desk.openProducer();
          return { ...real, send: (batches) => send(real, batches) };
        },
      });

    it('after Kafka has the record, the letter stays open and is replayed again', async () => {
      const [id] = await write([{ key: 'cut-off' }]);
      const dying = sendingBy(async (real, batches) => {
        await real.send(batches);
        throw new Error('killed');
      });
      const failure = await dying.replay(byIds(id), forReal).then(
        () => undefined,
        (error: Error) => error,
      );
      expect(failure?.message).to.match(/broke off after 0 letters: killed/);
      expect(await sentTo('like-events')).to.have.length(1);
      expect(await decisionRows(db)).to.have.nested.property('[0].isDone', false);
      const { letters } = await desk.admin.list({ key: 'cut-off', limit: 9 });
      expect(letters[0]?.decision).to.include({ decision: 'replayed', doneAt: null });

      const report = await replay(byIds(id));
      expect(report.outcome).to.equal('replayed');
      const marks = (await sentTo('like-events')).map(markOf) as { attempt: number }[];
      expect(
        marks.map(({ attempt }) => attempt),
        'the same try',
      ).to.deep.equal([1, 1]);
      expect(await decisionRows(db)).to.have.length(1);
      expect(await openIds('cut-off')).to.deep.equal([]);
    });

    it('in the middle, what was sent is decided and the rest is not', async () => {
      await write(
        Array.from({ length: 700 }, (_, i) => ({ key: 'middle', offset: i, message: 'in the middle' })),
      );
      let sends = 0;
      const dying = sendingBy(async (real, batches) => {
        if (++sends === 2) throw new Error('brokers are gone');
        await real.send(batches);
      });
      const selection: LetterSelection = {
        by: 'filter',
        filter: { exception: 'in the middle' },
        limit: 1000,
      };
      const failure = await dying.replay(selection, forReal).then(
        () => undefined,
        (error: Error) => error,
      );
      expect(failure?.message).to.match(/broke off after 500 letters/);
      expect(await openIds('middle')).to.have.length(200);
      expect((await replay(selection)).letters).to.have.length(200);
      expect(await sentTo('like-events')).to.have.length(700);
    });

    it('keeps others out while one is at it, and lets them in after', async () => {
      const [id, other] = await write([
        { key: 'turn', offset: 1 },
        { key: 'turn', offset: 2 },
      ]);
      const { promise: isSending, resolve: sending } = Promise.withResolvers<void>();
      const { promise: mayGoOn, resolve: goOn } = Promise.withResolvers<void>();
      const slow = sendingBy(async (real, batches) => {
        sending();
        await mayGoOn;
        await real.send(batches);
      });
      const first = slow.replay(byIds(id), forReal);
      await isSending;
      expect(await desk.admin.replay(byIds(other), forReal)).to.deep.equal({ outcome: 'busy' });
      expect(await desk.admin.drop(byIds(other), forReal)).to.deep.equal({ outcome: 'busy' });
      expect((await replay(byIds(other), dryRun)).outcome).to.equal('would-replay');
      goOn();
      expect(reported(await first).outcome).to.equal('replayed');
      expect((await replay(byIds(other))).outcome).to.equal('replayed');
    });
  });
});
