import { expect } from 'chai';
import { frameLength } from '../../../src/avro/confluent-frame.ts';
import { envelopeSchemaOf } from '../../../src/avro/envelope-schema.ts';
import { readEnvelope } from '../../../src/avro/read-envelope.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { eventually } from '../../support/eventually.ts';
import {
  createMemoryBroker,
  type MemoryBroker,
  recordRefused,
  useRelays,
} from '../../support/memory-broker.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { appendViews, clearHeldEvents, park } from '../../support/outbox-admin.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

/** More than the retry relay takes along at once. */
const crowdSize = 1200;
const hourMs = 3_600_000;

describe('failed events with many others behind them', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let db: Database;
  const relays = useRelays(() => db, silentLog());
  before(() => {
    db = openTestDatabase(workspace(), 6);
  });
  beforeEach(() => clearHeldEvents(db));

  const published = ({ values }: MemoryBroker): string[] =>
    values.map((value) => {
      const { type } = envelopeSchemaOf('ProductViewed');
      const { aggregateId, aggregateVersion } = readEnvelope(type, value ?? Buffer.alloc(0), frameLength);
      return `${aggregateId}@${aggregateVersion}`;
    });
  const parkViews = async (aggregateId: string, count: number): Promise<void> =>
    park(db, await appendViews(db, aggregateId, { count }), { dead: false });
  const heldRows = () =>
    db.execute<{ id: string; tries: number; unanswered: number }>({
      name: 'spec-held',
      text: `select aggregate_id as id, max(retry_count) as tries, max(unanswered_count) as unanswered
             from outbox_failed group by aggregate_id order by aggregate_id`,
    });

  it('do not keep others from being tried: every aggregate whose try is counted gets it', async () => {
    await parkViews('crowd-1', crowdSize);
    const later = Array.from({ length: 5 }, (_, index) => `later-${index}`);
    for (const id of later) await parkViews(id, 2);
    const broker = createMemoryBroker();
    broker.setMood((records) => {
      if (records.some(({ key }) => key === 'crowd-1')) throw recordRefused();
    });
    // Long enough that nothing is due a second time.
    relays.startRetry('x', broker, { backoffBaseMs: hourMs, backoffMaxMs: hourMs });
    await eventually(async () =>
      expect(await heldRows()).to.deep.equal([{ id: 'crowd-1', tries: 1, unanswered: 0 }]),
    );
    expect(published(broker)).to.have.members(later.flatMap((id) => [`${id}@1`, `${id}@2`]));
    for (const id of later) {
      expect(published(broker).indexOf(`${id}@1`)).to.be.lessThan(published(broker).indexOf(`${id}@2`));
    }
  });

  it('all get through in order, a part of them at a time', async () => {
    await parkViews('crowd-2', crowdSize);
    const broker = createMemoryBroker();
    relays.startRetry('x', broker);
    await eventually(async () => expect(await heldRows()).to.deep.equal([]), { timeoutMs: 60_000 });
    expect(published(broker)).to.deep.equal(
      Array.from({ length: crowdSize }, (_, index) => `crowd-2@${index + 1}`),
    );
  });
});
