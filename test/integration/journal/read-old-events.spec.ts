import { expect } from 'chai';
import { avroDir, envelopeSchemaOf, fingerprintOf, parseSchema } from '../../../src/avro/envelope-schema.ts';
import { productId, userId } from '../../../src/domain/ids.ts';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { StreamId } from '../../../src/journal/seal-event.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { readGoldenEvents } from '../../../src/schema-evolution/golden-events.ts';
import { readReleases } from '../../../src/schema-evolution/released-history.ts';
import { eventsOf, sealed } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const viewed = { type: 'ProductViewed', productId: productId('p'), userId: userId('u') } as const;

describe('journal, with events of earlier versions', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace());
  });

  /** A row as another version of this program has left it. */
  const appendAs = async (stream: StreamId, schemaJson: string, payload: Buffer): Promise<void> => {
    const schemaFingerprint = Buffer.from(fingerprintOf(parseSchema(schemaJson)), 'hex');
    await db.execute(
      {
        name: 'spec-schema',
        text: `insert into avro_schema (fingerprint, name, schema) values ($1, 'old', $2)`,
      },
      [schemaFingerprint, schemaJson],
    );
    await appendEvents(db, [{ ...sealed(stream, 1, viewed), schemaFingerprint, payload }]);
  };

  it('gives an event of a replaced type as the one that replaced it', async () => {
    const golden = readGoldenEvents(avroDir).get('loopers.product.registered.v1/1-in-stock.json');
    const release = readReleases(avroDir).find(({ fullName }) => fullName === golden?.record);
    if (!golden || !release) throw new Error('No golden event of v1');
    const stream = { aggregateType: 'Product', aggregateId: 'mill-1' } as const;
    await appendAs(stream, release.json, Buffer.from(golden.bytes, 'hex'));
    const events = await eventsOf(db, stream);
    expect(events).to.deep.equal([{ type: 'ProductRegistered', ...golden.envelope.data }]);
  });

  it('gives an event written before a field was there with its default', async () => {
    const { json } = envelopeSchemaOf('ProductViewed');
    const schema = JSON.parse(json) as { fields: { name: string; type: { fields: { name: string }[] } }[] };
    const data = schema.fields.find(({ name }) => name === 'data')?.type;
    if (data) data.fields = data.fields.filter(({ name }) => name !== 'userId');
    const older = JSON.stringify(schema);
    const envelope = readGoldenEvents(avroDir).get('loopers.product.viewed.v1/1-by-a-user.json')?.envelope;
    const stream = { aggregateType: 'ProductView', aggregateId: 'older' } as const;
    await appendAs(stream, older, parseSchema(older).toBuffer(envelope));
    const events = await eventsOf(db, stream);
    expect(events).to.deep.equal([{ type: 'ProductViewed', productId: 'mill-1', userId: null }]);
  });
});
