import { expect } from 'chai';
import { appendEvents } from '../../../src/journal/append-events.ts';
import { createWriterSchemas } from '../../../src/journal/writer-schemas.ts';
import type { OutgoingRecord, RecordProducer } from '../../../src/kafka/record-producer.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { type Relay, startRelay } from '../../../src/relay/relay.ts';
import { eventually } from '../../support/eventually.ts';
import { viewOf } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

/** A broker in memory whose moods a test decides; the real one has its turn in the end-to-end specs. */
const createBroker = () => {
  const keys: (Buffer | string | null)[] = [];
  let mood: (records: readonly OutgoingRecord[]) => void = () => {};
  const producer: RecordProducer = {
    send: async (batches) => {
      for (const records of batches.values()) {
        mood(records);
        keys.push(...records.map(({ key }) => key));
      }
    },
    close: async () => {},
  };
  const setMood = (next: typeof mood): void => {
    mood = next;
  };
  return { keys, producer, setMood };
};

const settings = {
  pollIntervalMs: 20,
  batchSizeMax: 5,
  publishTimeoutMs: 5000,
  retryDelayMs: 20,
  leaseMs: 1000,
};
const range = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => `k${from + index}`);

describe('relay', () => {
  const workspace = useWorkspace();
  let db: Database;
  const relays: Relay[] = [];
  const { log, lines } = recordingLog();
  before(() => {
    db = openTestDatabase(workspace(), 6);
  });
  afterEach(async () => {
    for (const relay of relays.splice(0)) await relay.stop();
  });

  const start = (holder: string, broker: ReturnType<typeof createBroker>): Relay => {
    const relay = startRelay({
      database: db,
      publishing: {
        producer: broker.producer,
        registry: { idOf: async () => 1, writerType: () => Promise.reject(new Error('not asked')) },
        schemas: createWriterSchemas(db),
        physicalTopic: (topic) => topic,
      },
      settings,
      holder,
      log,
    });
    relays.push(relay);
    return relay;
  };
  const append = async (keys: readonly string[]): Promise<void> => {
    for (const key of keys) await appendEvents(db, [viewOf(key, 1)]);
  };

  it('publishes every row once and in order, and goes on where it stopped', async () => {
    await append(range(0, 12));
    const broker = createBroker();
    const first = start('a', broker);
    await eventually(() => expect(broker.keys).to.deep.equal(range(0, 12)));
    await first.stop();
    await append(range(12, 20));
    start('a', broker);
    await eventually(() => expect(broker.keys).to.deep.equal(range(0, 20)));
  });

  it('keeps rows that could not be sent, says so once, and sends them in order later', async () => {
    const broker = createBroker();
    broker.setMood(() => {
      throw new Error('no broker');
    });
    lines.length = 0;
    start('b', broker);
    await append(range(20, 32));
    await eventually(() => expect(lines.some(({ msg }) => msg.includes('cannot publish'))).to.equal(true));
    broker.setMood(() => {});
    await eventually(() => expect(broker.keys).to.deep.equal(range(20, 32)));
    const troubles = lines.filter(({ level }) => level >= 40).map(({ msg }) => msg);
    expect(troubles).to.deep.equal([
      'The relay cannot publish; it keeps trying and loses nothing',
      'The relay publishes again',
    ]);
  });

  it('repeats a page whose cursor it could not move, and loses none of it', async () => {
    const broker = createBroker();
    let failures = 2;
    const working = db.execute;
    const flaky: Database = {
      ...db,
      execute: (statement, values) =>
        statement.name === 'move-outbox-cursor' && failures-- > 0
          ? Promise.reject(new Error('the connection broke after the send'))
          : working(statement, values),
    };
    const kept = db;
    db = flaky;
    start('c', broker);
    db = kept;
    await append(range(32, 36));
    await eventually(() => expect(new Set(broker.keys)).to.deep.equal(new Set(range(32, 36))));
    await eventually(() => expect(failures).to.be.lessThan(0));
    expect(broker.keys.length).to.be.greaterThan(4);
  });

  it('leaves the work to one of two, and the other takes over when that one stops', async () => {
    const brokers = [createBroker(), createBroker()] as const;
    const first = start('d1', brokers[0]);
    await append(range(36, 38));
    await eventually(() => expect(brokers[0].keys).to.deep.equal(range(36, 38)));
    start('d2', brokers[1]);
    await append(range(38, 40));
    await eventually(() => expect(brokers[0].keys).to.deep.equal(range(36, 40)));
    await first.stop();
    await append(range(40, 42));
    await eventually(() => expect(brokers[1].keys).to.deep.equal(range(40, 42)));
  });
});
