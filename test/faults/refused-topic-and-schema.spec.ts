import { expect } from 'chai';
import { Kafka, logLevel } from 'kafkajs';
import { envelopeSchemaOf, fingerprintOf, parseSchema, subjectOf } from '../../src/avro/envelope-schema.ts';
import { appendEvents } from '../../src/journal/append-events.ts';
import { connectTopicAdmin } from '../../src/kafka/topic-admin.ts';
import { connectRegistryRest } from '../../src/registry/registry-rest.ts';
import { connectSchemaRegistry } from '../../src/registry/schema-registry.ts';
import { readRelayStatus } from '../../src/relay-admin/read-relay-status.ts';
import { environmentOf, runCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { viewOf } from '../support/journal.ts';
import { useRelayScene } from '../support/relay-scene.ts';
import { countRecords } from '../support/topic-reader.ts';
import { eventOf } from '../support/write-aggregates.ts';

describe('a topic that is missing and a schema that the registry refuses', function () {
  this.timeout(300_000);
  const { workspace, database, relays, judge } = useRelayScene();
  const kafka = () =>
    new Kafka({
      brokers: [...workspace().endpoints.kafkaBrokers],
      connectionTimeout: 30_000,
      logLevel: logLevel.NOTHING,
    });
  const registryAccess = () => ({ url: workspace().endpoints.schemaRegistryUrl, requestTimeoutMs: 30_000 });

  const deleteTopic = async (topic: string): Promise<void> => {
    const admin = kafka().admin();
    await admin.connect();
    await admin.deleteTopics({ topics: [topic] }).finally(() => admin.disconnect());
    const topics = await connectTopicAdmin(kafka());
    // One look takes its time when the topic goes in the middle of it: a broker may just not know it yet.
    await eventually(async () => expect((await topics.describe([topic])).size).to.equal(0), {
      timeoutMs: 120_000,
    }).finally(() => topics.close());
  };

  /** The schema of views under a name of its own; with another field in place of the product it is incompatible. */
  const schemaOfViews = (productField: string) => {
    const fullName = `loopers.spec.${workspace().unique('Viewed').replace(/\W/g, '')}`;
    const record = JSON.parse(
      envelopeSchemaOf('ProductViewed').json.replace('"productId"', `"${productField}"`),
    );
    const json = JSON.stringify({
      ...record,
      namespace: 'loopers.spec',
      name: fullName.slice('loopers.spec.'.length),
    });
    return { fullName, json, subject: subjectOf('product-view-events', fullName) };
  };

  /** What a newer version writes, whose schema does not go with the registered one. */
  const storeRefusedSchema = async () => {
    const { json: older, subject } = schemaOfViews('productId');
    await connectSchemaRegistry({ ...registryAccess(), compatibility: 'FULL_TRANSITIVE' }).idOf(
      subject,
      older,
    );
    const { fullName, json } = schemaOfViews('articleId');
    const fingerprint = Buffer.from(fingerprintOf(parseSchema(json)), 'hex');
    await database().execute(
      {
        name: 'spec-store-schema',
        text: 'insert into avro_schema (fingerprint, name, schema) values ($1, $2, $3)',
      },
      [fingerprint, fullName, json],
    );
    return { subject, json, fingerprint };
  };

  /** As an operator does who knows what it means for the readers. */
  const acceptSchema = async (subject: string, json: string): Promise<void> => {
    await connectRegistryRest(registryAccess()).setCompatibility(subject, 'NONE');
    await connectSchemaRegistry({ ...registryAccess(), compatibility: 'NONE' }).idOf(subject, json);
  };

  const aggregates = 200;
  const status = () => readRelayStatus(database(), workspace().config.relay);

  it('stop only their own events, are named within ten seconds, and let them through in order when they are mended', async () => {
    const relay = await relays.start({ RELAY_RETRIES_MAX: '1000' });
    const [stockTopic, viewTopic] = ['stock-events', 'product-view-events'].map(workspace().unique);
    await deleteTopic(String(stockTopic));
    const { subject, json, fingerprint } = await storeRefusedSchema();
    for (let version = 1; version <= 2; version++) {
      const ids = Array.from({ length: aggregates }, (_, index) => `refused-${index}`);
      await appendEvents(database(), [
        ...ids.flatMap((id) => [eventOf(`${id}-stock`, version), eventOf(`${id}-fine`, version)]),
        // Its second event has a schema that is known, and waits behind the first.
        { ...viewOf('newer', version), ...(version === 1 && { schemaFingerprint: fingerprint }) },
      ]);
    }
    await eventually(
      async () => {
        const { late } = await status();
        expect(late.map(({ reason }) => reason.kind)).to.have.members(['topic-refused', 'schema-refused']);
      },
      { timeoutMs: 10_000, what: 'both are named' },
    );
    const brokers = workspace().endpoints.kafkaBrokers;
    await eventually(
      async () => expect(await countRecords(brokers, [String(viewTopic)])).to.equal(2 * aggregates),
      { timeoutMs: 60_000, what: 'views in Kafka' },
    );
    await eventually(
      async () => expect(await status()).to.deep.include({ pending: 0, failed: 2 * aggregates + 2, dead: 0 }),
      { timeoutMs: 60_000 },
    );

    const millrace = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await runCli(args, environmentOf(workspace()));
      expect(code, stderr).to.equal(0);
      return stdout;
    };
    const whole = await millrace('status');
    for (const told of [whole, await millrace('relay', 'status')]) {
      expect(told)
        .to.contain(
          `LATE: Topic ${stockTopic} does not exist: ${2 * aggregates} events wait. Create it with npx millrace topics apply.`,
        )
        .and.contain(
          `LATE: The registry refuses the schema of loopers.product.viewed.v1 (subject ${subject}): `,
        )
        .and.match(/articleId.*; 2 events wait\. See what is wrong .* npx millrace schemas check/);
    }
    expect(whole)
      .to.match(new RegExp(`stock-level +${stockTopic} +- +does not exist: npx millrace topics apply`))
      .and.match(new RegExp(`product-statistic +${viewTopic} +${2 * aggregates} `));

    await millrace('topics', 'apply');
    await judge().allAccountedFor({ held: ['newer@1', 'newer@2'] });
    await acceptSchema(subject, json);
    await judge().allAccountedFor();
    expect((await status()).late).to.deep.equal([]);
    expect(await relay.stop()).to.equal(0);
  });
});
