import { expect } from 'chai';
import { productId, userId } from '../../../src/domain/ids.ts';
import { appendEvents, VersionConflict } from '../../../src/journal/append-events.ts';
import { contentHash } from '../../../src/journal/content-hash.ts';
import { findExistingStreams } from '../../../src/journal/find-existing-streams.ts';
import { storeWriterSchemas } from '../../../src/journal/writer-schemas.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { eventsOf, sealed } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const stream = (aggregateId: string) => ({ aggregateType: 'ProductView', aggregateId }) as const;
const viewed = (user: string) => ({
  type: 'ProductViewed' as const,
  productId: productId('p'),
  userId: userId(user),
});

describe('journal', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace());
  });

  it('gives a stream back as it was appended', async () => {
    await appendEvents(db, [
      sealed(stream('a'), 1, viewed('first')),
      sealed(stream('a'), 2, viewed('second')),
    ]);
    await appendEvents(db, [sealed(stream('a'), 3, viewed('third'))]);
    expect(await eventsOf(db, stream('a'))).to.deep.equal([
      viewed('first'),
      viewed('second'),
      viewed('third'),
    ]);
  });

  it('refuses a version that is taken, and appends nothing of that command', async () => {
    await appendEvents(db, [sealed(stream('b'), 1, viewed('winner'))]);
    const loser = [sealed(stream('b-other'), 1, viewed('loser')), sealed(stream('b'), 1, viewed('loser'))];
    const error = await appendEvents(db, loser).catch((failure: Error) => failure);
    expect(error).to.be.instanceOf(VersionConflict);
    expect(await findExistingStreams(db, [stream('b-other'), stream('b')])).to.deep.equal([stream('b')]);
    expect(await eventsOf(db, stream('b'))).to.deep.equal([viewed('winner')]);
  });

  it('stores with each row the proof of what the command wrote', async () => {
    const event = sealed(stream('c'), 1, viewed('x'));
    await appendEvents(db, [event]);
    const [row] = await db.execute<{ hash: Buffer; payload: Buffer; requestId: string; eventType: string }>(
      {
        name: 'spec-hash',
        text: `select content_hash as hash, payload, request_id as "requestId", event_type as "eventType" from outbox where event_id = $1`,
      },
      [event.eventId],
    );
    expect(row && contentHash(row)).to.deep.equal(row?.hash);
    const tampered = row && { ...row, payload: Buffer.concat([row.payload, Buffer.from('!')]) };
    expect(tampered && contentHash(tampered)).not.to.deep.equal(row?.hash);
  });

  it('reads rows whose schema only the database knows', async () => {
    await storeWriterSchemas(db);
    await storeWriterSchemas(db);
    const [stored] = await db.execute<{ fingerprint: Buffer; json: string }>({
      name: 'spec-stored',
      text: `select fingerprint, schema::text as json from avro_schema where name like '%ProductViewedV1Envelope'`,
    });
    // The same schema under a fingerprint that the code does not know stands for one of an older version.
    const foreign = Buffer.alloc(32, 7);
    await db.execute(
      {
        name: 'spec-old',
        text: `insert into avro_schema (fingerprint, name, schema) values ($1, 'old', $2)`,
      },
      [foreign, stored?.json],
    );
    await appendEvents(db, [{ ...sealed(stream('d'), 1, viewed('old')), schemaFingerprint: foreign }]);
    expect(await eventsOf(db, stream('d'))).to.deep.equal([viewed('old')]);
  });
});
