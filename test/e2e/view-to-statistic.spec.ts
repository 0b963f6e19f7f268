import { expect } from 'chai';
import { frameLength, schemaIdOf } from '../../src/avro/confluent-frame.ts';
import { decodeEnvelope } from '../../src/avro/decode-envelope.ts';
import { parseSchema } from '../../src/avro/envelope-schema.ts';
import { eventually } from '../support/eventually.ts';
import { type Client, startTestApp } from '../support/running-app.ts';
import { useWorkspace, type Workspace } from '../support/stack.ts';
import { readTopic, writeTopic } from '../support/topic-reader.ts';

const product = { name: 'Mill', priceMinor: 1999, currency: 'EUR', stock: 5 };

describe('from a view to its statistic', function () {
  this.timeout(180_000);
  const workspace = useWorkspace();
  let client: Client;
  let space: Workspace;
  before(async () => {
    space = workspace();
    client = (await startTestApp(space)).client;
  });

  const register = async (): Promise<string> => {
    const { status, body } = await client.post('/v1/products', product);
    expect(status).to.equal(201);
    return body.productId as string;
  };
  const view = async (productId: string, times: number): Promise<void> => {
    const answers = await Promise.all(
      Array.from({ length: times }, (_, index) =>
        client.post(
          `/v1/products/${productId}/views`,
          index % 2 === 0 ? undefined : { userId: `user-${index}` },
        ),
      ),
    );
    expect(answers.map(({ status }) => status)).to.deep.equal(answers.map(() => 201));
  };
  const viewCount = async (productId: string): Promise<unknown> =>
    (await client.get(`/v1/products/${productId}/statistic`)).body.viewCount;

  it('starts at zero for a product that nobody has looked at', async () => {
    const productId = await register();
    await eventually(async () => expect(await viewCount(productId)).to.equal(0));
    const { body } = await client.get(`/v1/products/${productId}/statistic`);
    expect(body).to.include({ productId, likeCount: 0, salesCount: 0, viewCount: 0 });
  });

  it('counts every view once', async () => {
    const productId = await register();
    await view(productId, 30);
    await eventually(async () => expect(await viewCount(productId)).to.equal(30));
  });

  it('goes through Kafka as Avro with the registry’s header, keyed by product', async () => {
    const productId = await register();
    await view(productId, 3);
    await eventually(async () => expect(await viewCount(productId)).to.equal(3));
    const records = await readTopic(space.endpoints.kafkaBrokers, space.unique('product-view-events'));
    const mine = records.filter(({ key }) => key === productId);
    expect(mine).to.have.length(3);
    expect(new Set(mine.map(({ partition }) => partition)).size, 'partitions of one product').to.equal(1);

    const value = mine[0]?.value;
    if (!value) throw new Error('A record without a value');
    const answer = await fetch(`${space.endpoints.schemaRegistryUrl}/schemas/ids/${schemaIdOf(value)}`);
    const { schema } = (await answer.json()) as { schema: string };
    const envelope = decodeEnvelope(parseSchema(schema), value, frameLength);
    expect(envelope).to.include({
      type: 'loopers.product.viewed.v1',
      source: 'millrace',
      aggregateVersion: 1,
    });
    expect(envelope.aggregateId).to.equal(`${productId}_${envelope.id}`);
    expect(envelope.data.productId).to.equal(productId);
  });

  it('does not count a record again that comes again', async () => {
    const productId = await register();
    await view(productId, 4);
    await eventually(async () => expect(await viewCount(productId)).to.equal(4));
    const topic = space.unique('product-view-events');
    const records = await readTopic(space.endpoints.kafkaBrokers, topic);
    await writeTopic(
      space.endpoints.kafkaBrokers,
      topic,
      records.filter(({ key }) => key === productId),
    );
    await view(productId, 1);
    await eventually(async () => expect(await viewCount(productId)).to.equal(5));
  });

  it('sets a record that nobody can read aside, with its cause, and goes on', async () => {
    const productId = await register();
    const topic = space.unique('product-view-events');
    const poison = Buffer.from('{"not":"avro"}');
    const unknownSchema = Buffer.concat([Buffer.from([0, 0x7f, 0xff, 0xff, 0xff]), poison]);
    await writeTopic(space.endpoints.kafkaBrokers, topic, [
      { key: productId, value: poison },
      { key: productId, value: unknownSchema },
      { key: productId, value: null },
    ]);
    await view(productId, 2);
    await eventually(async () => expect(await viewCount(productId)).to.equal(2));

    // Every projection that reads the topic sets it aside for itself.
    const dead = (await readTopic(space.endpoints.kafkaBrokers, `${topic}.dlq`)).filter(
      ({ headers }) => headers['__millrace.projection'] === 'product-statistic',
    );
    expect(dead.map(({ key }) => key)).to.deep.equal([productId, productId, productId]);
    expect(dead.map(({ value }) => value)).to.deep.equal([poison, unknownSchema, null]);
    expect(dead[0]?.headers).to.include({
      '__streams.errors.exception': 'DecodingError',
      '__streams.errors.topic': topic,
      '__millrace.kind': 'undecodable',
    });
    expect(dead[1]?.headers['__streams.errors.exception']).to.equal('UnknownSchemaId');
  });
});

describe('separate processes', function () {
  this.timeout(180_000);
  const workspace = useWorkspace();

  it('take commands without relay and projector, which catch up when they come', async () => {
    const api = await startTestApp(workspace(), 'api');
    const { body } = await api.client.post('/v1/products', product);
    const productId = body.productId as string;
    for (let turn = 0; turn < 5; turn++) await api.client.post(`/v1/products/${productId}/views`);
    expect((await api.client.get(`/v1/products/${productId}/statistic`)).status).to.equal(404);

    await startTestApp(workspace(), 'relay');
    await startTestApp(workspace(), 'projector');
    await eventually(async () => {
      const { body: statistic } = await api.client.get(`/v1/products/${productId}/statistic`);
      expect(statistic.viewCount).to.equal(5);
    });
  });
});
