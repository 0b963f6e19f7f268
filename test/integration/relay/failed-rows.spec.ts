import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect } from 'chai';
import { frameLength } from '../../../src/avro/confluent-frame.ts';
import { envelopeSchemaOf } from '../../../src/avro/envelope-schema.ts';
import { readEnvelope } from '../../../src/avro/read-envelope.ts';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { contentHash } from '../../../src/journal/content-hash.ts';
import { PublishError } from '../../../src/kafka/publish-error.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { createDeadLetterNet } from '../../../src/relay/dead-letters.ts';
import { claimDueRows } from '../../../src/relay/failed-rows.ts';
import { acquireLease } from '../../../src/relay/lease.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import {
  brokerTrouble,
  createMemoryBroker,
  type MemoryBroker,
  type ReceivedRecord,
  recordRefused,
  useRelays,
} from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

interface FailedRow {
  readonly aggregateId: string;
  readonly version: number;
  readonly retryCount: number;
  readonly isDead: boolean;
}

describe('events that cannot be published', function () {
  this.timeout(60_000);
  const workspace = useWorkspace();
  let db: Database;
  const { log, lines } = recordingLog();
  const relays = useRelays(() => db, log);
  before(() => {
    db = openTestDatabase(workspace(), 10);
  });
  beforeEach(async () => {
    lines.length = 0;
    for (const table of ['outbox_failed', 'outbox_dead_letter', 'scheduler_lock']) {
      await db.execute({ name: `spec-clear-${table}`, text: `delete from ${table}` });
    }
  });

  const failedRows = () =>
    db.execute<FailedRow>({
      name: 'spec-failed',
      text: `select aggregate_id as "aggregateId", aggregate_version as version, retry_count as "retryCount",
                    dead_at is not null as "isDead" from outbox_failed order by outbox_id`,
    });
  const deadLetters = () =>
    db.execute<{ reason: string; eventType: string }>({
      name: 'spec-dead',
      text: `select reason, envelope->>'eventType' as "eventType" from outbox_dead_letter order by original_id`,
    });
  const envelopeOf = (value: Buffer | null) => {
    if (!value) throw new Error('A record without a value');
    return readEnvelope(envelopeSchemaOf('ProductViewed').type, value, frameLength);
  };
  const versionOf = (value: Buffer | null): number => envelopeOf(value).aggregateVersion;
  /** What is in the broker: aggregate and version, in order. */
  const published = ({ values }: MemoryBroker): string[] =>
    values.map((value) => {
      const { aggregateId, aggregateVersion } = envelopeOf(value);
      return `${aggregateId}@${aggregateVersion}`;
    });
  const append = (...events: readonly (readonly [string, number])[]) =>
    appendEvents(
      db,
      events.map(([id, version]) => viewOf(id, version)),
    );
  const refuse =
    (...keys: readonly string[]) =>
    (records: readonly ReceivedRecord[]): void => {
      if (records.some(({ key }) => keys.includes(String(key)))) throw recordRefused();
    };

  it('stand alone: the rest of the batch goes on, and later events of the aggregate wait behind', async () => {
    const broker = createMemoryBroker();
    broker.setMood(refuse('bad-1'));
    await append(['a-1', 1], ['bad-1', 1], ['b-1', 1], ['bad-1', 2], ['a-1', 2]);
    await append(['bad-1', 3], ['c-1', 1]);
    relays.startMain('x', broker);
    await eventually(() => expect(published(broker)).to.have.members(['a-1@1', 'b-1@1', 'a-1@2', 'c-1@1']));
    await eventually(async () =>
      expect(
        (await failedRows()).map(({ aggregateId, version }) => `${aggregateId}@${version}`),
      ).to.deep.equal(['bad-1@1', 'bad-1@2', 'bad-1@3']),
    );
    expect(published(broker).indexOf('a-1@1')).to.be.lessThan(published(broker).indexOf('a-1@2'));
  });

  it('hold back events of the next page, which was made ready while theirs was on its way', async () => {
    const broker = createMemoryBroker();
    // Refused alone or together with others, and only this one.
    broker.setMood((records) => {
      const versions = records.filter(({ key }) => key === 'bad-0').map(({ value }) => versionOf(value));
      if (versions.includes(1)) throw recordRefused();
    });
    await append(['a-0', 1], ['b-0', 1], ['c-0', 1], ['d-0', 1], ['bad-0', 1]);
    await append(['bad-0', 2], ['a-0', 2], ['bad-0', 3]);
    relays.startMain('x', broker);
    await eventually(async () => expect(await failedRows()).to.have.length(3));
    expect(published(broker)).to.deep.equal(['a-0@1', 'b-0@1', 'c-0@1', 'd-0@1', 'a-0@2']);
  });

  it('are retried in order when they can be, and then nothing is left of the failure', async () => {
    const broker = createMemoryBroker();
    broker.setMood(refuse('bad-2'));
    await append(['bad-2', 1], ['bad-2', 2], ['bad-2', 3]);
    relays.startMain('x', broker);
    await eventually(async () => expect(await failedRows()).to.have.length(3));
    broker.setMood(() => {});
    relays.startRetry('x', broker);
    await eventually(async () => expect(await failedRows()).to.deep.equal([]));
    expect(published(broker)).to.deep.equal(['bad-2@1', 'bad-2@2', 'bad-2@3']);
    await append(['bad-2', 4]);
    await eventually(() => expect(published(broker).at(-1)).to.equal('bad-2@4'));
  });

  it('are not sent again in a retry that got some of them through before the brokers were in trouble', async () => {
    const broker = createMemoryBroker();
    broker.setMood(refuse('bad-2b', 'bad-2c'));
    await append(['bad-2b', 1], ['bad-2c', 1]);
    relays.startMain('x', broker);
    await eventually(async () => expect(await failedRows()).to.have.length(2));
    broker.setMood(() => {});
    let troubles = 0;
    // The first of them arrives, and of the second nothing is known.
    const halfWay: MemoryBroker['producer']['send'] = async (batches) => {
      const [[topic, records] = ['', []]] = batches;
      if (troubles++ > 0) return broker.producer.send(batches);
      await broker.producer.send(new Map([[topic, records.slice(0, 1)]]));
      const rest = { topic, partition: 1, positions: [1], reason: 'REQUEST_TIMED_OUT', isRefused: false };
      throw new PublishError('BROKER_UNAVAILABLE', { retriable: true, unacknowledged: [rest] });
    };
    const producer = {
      ...broker.producer,
      send: halfWay,
      prepare: (batches: Parameters<typeof halfWay>[0]) => ({ send: () => halfWay(batches) }),
    };
    relays.startRetry('x', { ...broker, producer });
    await eventually(async () => expect(await failedRows()).to.deep.equal([]));
    expect([...published(broker)].sort()).to.deep.equal(['bad-2b@1', 'bad-2c@1']);
  });

  it('are dead after their last try, kept with their reason, and hold their aggregate', async () => {
    const broker = createMemoryBroker();
    broker.setMood(refuse('bad-3'));
    await append(['bad-3', 1], ['bad-3', 2], ['d-3', 1]);
    relays.startMain('x', broker);
    relays.startRetry('x', broker);
    await eventually(async () => expect(await deadLetters()).to.have.length(1));
    await eventually(async () =>
      expect(await failedRows()).to.deep.equal([
        { aggregateId: 'bad-3', version: 1, retryCount: 3, isDead: true },
        { aggregateId: 'bad-3', version: 2, retryCount: 0, isDead: false },
      ]),
    );
    expect((await deadLetters())[0]).to.include({ eventType: 'loopers.product.viewed.v1' });
    expect(published(broker)).to.deep.equal(['d-3@1']);
    expect(lines.filter(({ msg }) => msg === 'A retry failed')).to.have.length(3);
    expect(
      lines.filter(({ level, msg }) => level === 50 && msg.startsWith('An event is dead')),
    ).to.have.length(1);
  });

  it('count a try that never came back', async () => {
    const broker = createMemoryBroker();
    broker.setMood(refuse('bad-4'));
    await append(['bad-4', 1]);
    relays.startMain('x', broker);
    await eventually(async () => expect(await failedRows()).to.have.length(1));
    // A process that dies in the middle of the send leaves the claim as it is.
    const lease = await acquireLease(db, { name: 'outbox-relay-retry', holder: 'crashing', holdMs: 1 });
    if (!lease) throw new Error('Nobody else holds it');
    const options = { rowsMax: 50, backoffBaseMs: 1, backoffMaxMs: 1, lease };
    await claimDueRows(db, options);
    expect((await failedRows())[0]?.retryCount).to.equal(1);
    const late = await claimDueRows(db, { ...options, lease: { ...lease, token: lease.token - 1 } });
    expect(late, 'claimed under a lease that is gone').to.deep.equal([]);
  });

  const claimAs = async (holder: string) => {
    const lease = await acquireLease(db, { name: 'outbox-relay-retry', holder, holdMs: -1 });
    if (!lease) throw new Error('Nobody else holds it');
    const claimed = await claimDueRows(db, { rowsMax: 50, backoffBaseMs: 0, backoffMaxMs: 0, lease });
    return claimed.map(({ aggregateId }) => aggregateId);
  };

  it('are tried alone once a try of them never came back, so that one that ends the process is found', async () => {
    const broker = createMemoryBroker();
    broker.setMood(refuse('bad-9', 'bad-10', 'bad-11'));
    await append(['bad-9', 1], ['bad-10', 1]);
    relays.startMain('x', broker);
    await eventually(async () => expect(await failedRows()).to.have.length(2));
    expect(await claimAs('dies')).to.have.members(['bad-9', 'bad-10']);
    await append(['bad-11', 1]);
    await eventually(async () => expect(await failedRows()).to.have.length(3));
    expect(await claimAs('lives'), 'what nobody has died of comes first').to.deep.equal(['bad-11']);
    const alone = [await claimAs('dies'), await claimAs('dies'), await claimAs('dies')];
    expect(alone.map(({ length }) => length)).to.deep.equal([1, 1, 1]);
    broker.setMood(() => {});
    relays.startRetry('x', broker);
    await eventually(async () => expect(await failedRows()).to.deep.equal([]));
  });

  it('are given up when they have ended too many processes, without another try', async () => {
    const broker = createMemoryBroker();
    broker.setMood(refuse('bad-12'));
    await append(['bad-12', 1], ['bad-12', 2]);
    const main = relays.startMain('x', broker);
    await eventually(async () => expect(await failedRows()).to.have.length(2));
    await main.stop();
    for (let death = 0; death < 3; death++) expect(await claimAs('dies')).to.deep.equal(['bad-12']);
    broker.setMood(() => {});
    relays.startRetry('x', broker);
    await eventually(async () => expect(await deadLetters()).to.have.length(1));
    expect((await deadLetters())[0]?.reason).to.match(/3 processes ended/);
    await eventually(async () => expect((await failedRows())[0]).to.include({ version: 1, isDead: true }));
    expect(published(broker)).to.deep.equal([]);
  });

  it('are not to blame when the registry does not answer: that is no death', async () => {
    const broker = createMemoryBroker();
    broker.setMood(refuse('bad-13'));
    await append(['bad-13', 1]);
    const main = relays.startMain('x', broker);
    await eventually(async () => expect(await failedRows()).to.have.length(1));
    await main.stop();
    broker.setMood(() => {});
    let refusals = 6;
    const idOf = () =>
      refusals-- > 0 ? Promise.reject(new Error('the registry is away')) : Promise.resolve(1);
    relays.startRetry('x', broker, {}, { idOf });
    await eventually(async () => expect(await failedRows()).to.deep.equal([]));
    expect(published(broker)).to.deep.equal(['bad-13@1']);
  });

  it('are not what broker trouble is: rows stay, no try is counted, the circuit opens and closes', async () => {
    const broker = createMemoryBroker();
    broker.setMood(() => {
      throw brokerTrouble();
    });
    await append(['e-5', 1], ['e-5', 2]);
    relays.startMain('x', broker);
    await eventually(() => expect(lines.some(({ msg }) => msg === 'circuit closed → open')).to.equal(true));
    expect(await failedRows()).to.deep.equal([]);
    broker.setMood(() => {});
    await eventually(() => expect(published(broker)).to.deep.equal(['e-5@1', 'e-5@2']));
    await append(['e-5', 3], ['e-5', 4], ['e-5', 5], ['e-5', 6], ['e-5', 7], ['e-5', 8]);
    await append(['e-5', 9]);
    await eventually(() => expect(published(broker)).to.have.length(9));
    expect(await failedRows()).to.deep.equal([]);
  });

  it('give their try back when the brokers are in trouble during a retry', async () => {
    const broker = createMemoryBroker();
    broker.setMood(refuse('bad-6'));
    await append(['bad-6', 1]);
    const main = relays.startMain('x', broker);
    await eventually(async () => expect(await failedRows()).to.have.length(1));
    await main.stop();
    let troubles = 0;
    broker.setMood(() => {
      troubles++;
      throw brokerTrouble();
    });
    relays.startRetry('x', broker);
    await eventually(() => expect(troubles).to.be.greaterThan(5));
    expect((await failedRows())[0]).to.include({ isDead: false });
    expect(await deadLetters()).to.deep.equal([]);
  });

  it('include one that was tampered with: never sent, dead at once, cried out', async () => {
    const broker = createMemoryBroker();
    await append(['t-7', 1], ['t-7', 2], ['f-7', 1]);
    await db.transaction(async (tx) => {
      await tx.execute({
        name: 'spec-off',
        text: 'alter table outbox disable trigger outbox_is_append_only',
      });
      const tamper = `update outbox set payload = payload || '\\x00' where aggregate_id = 't-7' and aggregate_version = 1`;
      await tx.execute({ name: 'spec-tamper', text: tamper });
      await tx.execute({ name: 'spec-on', text: 'alter table outbox enable trigger outbox_is_append_only' });
    });
    relays.startMain('x', broker);
    relays.startRetry('x', broker);
    await eventually(async () => expect(await deadLetters()).to.have.length(1));
    await eventually(() => expect(published(broker)).to.deep.equal(['f-7@1']));
    await eventually(async () =>
      expect(await failedRows()).to.deep.equal([
        { aggregateId: 't-7', version: 1, retryCount: 0, isDead: true },
        { aggregateId: 't-7', version: 2, retryCount: 0, isDead: false },
      ]),
    );
    expect((await deadLetters())[0]?.reason).to.match(/hash differs/);
  });

  it('include one of a type or a schema that this version does not know, which waits for a version that does', async () => {
    const broker = createMemoryBroker();
    const future = { ...viewOf('z-8', 1), eventType: 'loopers.product.teleported.v1' };
    const foreign = { ...viewOf('y-8', 1), schemaFingerprint: Buffer.alloc(32, 9) };
    const rehashed = [future, foreign].map((event) => ({ ...event, contentHash: contentHash(event) }));
    await appendEvents(db, [...rehashed, viewOf('g-8', 1)]);
    relays.startMain('x', broker);
    await eventually(() => expect(published(broker)).to.deep.equal(['g-8@1']));
    await eventually(async () =>
      expect((await failedRows()).map(({ aggregateId }) => aggregateId)).to.have.members(['z-8', 'y-8']),
    );
  });

  describe('and their safety net', () => {
    const withoutTable = (): Database => ({
      ...db,
      execute: (statement, values) =>
        statement.name === 'keep-dead-letters'
          ? Promise.reject(new Error('relation does not exist'))
          : db.execute(statement, values),
    });
    const letter = () => {
      const { stream, version, ...rest } = viewOf('net', 1);
      const row = { id: 77, ...rest, ...stream, aggregateVersion: version, createdAt: new Date(0) };
      return { row, reason: 'because' };
    };

    it('keeps them in the table', async () => {
      const net = createDeadLetterNet({ database: db, backupFile: relays.backupFile, log });
      await net.keep([letter()]);
      expect(net.counts).to.deep.equal({ stored: 1, backedUp: 0, onlyAlerted: 0 });
      expect(existsSync(relays.backupFile)).to.equal(false);
    });

    it('keeps them in a file when the table does not take them, one line each', async () => {
      const net = createDeadLetterNet({ database: withoutTable(), backupFile: relays.backupFile, log });
      await net.keep([letter()]);
      await net.keep([letter()]);
      expect(net.counts).to.deep.equal({ stored: 0, backedUp: 2, onlyAlerted: 0 });
      const kept = readFileSync(relays.backupFile, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(kept).to.have.length(2);
      expect(kept[0]).to.include({ id: 77, eventType: 'loopers.product.viewed.v1', reason: 'because' });
      rmSync(relays.backupFile);
    });

    it('cries them out when the file does not take them either', async () => {
      // A file where the folder should be, as when a disk is broken in the most inconvenient way.
      rmSync(dirname(relays.backupFile), { recursive: true, force: true });
      writeFileSync(dirname(relays.backupFile), '');
      const net = createDeadLetterNet({ database: withoutTable(), backupFile: relays.backupFile, log });
      await net.keep([letter()]);
      expect(net.counts).to.deep.equal({ stored: 0, backedUp: 0, onlyAlerted: 1 });
      const alert = lines.find(({ level }) => level === 60);
      expect(alert?.letter).to.include({ id: 77, reason: 'because' });
      rmSync(dirname(relays.backupFile));
      mkdirSync(dirname(relays.backupFile));
    });
  });
});
