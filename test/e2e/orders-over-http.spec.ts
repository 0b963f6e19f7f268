import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import fc from 'fast-check';
import { eventually } from '../support/eventually.ts';
import { createDocumentCheck, type OpenApiDocument } from '../support/openapi-document.ts';
import { mutatedRequest, operationsOf, validRequest } from '../support/openapi-fuzz.ts';
import { type Answer, type Client, clientOf, startTestApp } from '../support/running-app.ts';
import { operatorKey, shopperKey, useWorkspace } from '../support/stack.ts';
import { readTopic } from '../support/topic-reader.ts';

const problemOf = ({ body }: Answer): string => String(body.type).replace('urn:millrace:problem:', '');

describe('orders over HTTP', function () {
  this.timeout(300_000);
  const workspace = useWorkspace({ RATE_LIMIT_FAILED_LOGINS_PER_MINUTE: '0' });
  let operator: Client;
  let ann: Client;
  let bob: Client;
  before(async () => {
    const { url } = await startTestApp(workspace());
    operator = clientOf(url);
    ann = clientOf(url, shopperKey('ann'));
    bob = clientOf(url, shopperKey('bob'));
  });

  const newProduct = async (stock: number): Promise<string> => {
    const product = { name: 'Mill', priceMinor: 250, currency: 'EUR', stock };
    const { body, status } = await operator.post('/v1/products', product);
    expect(status).to.equal(201);
    return body.productId as string;
  };
  const orderOf = (productId: string, quantity = 1) => ({ userId: 'ann', items: [{ productId, quantity }] });
  const stockOf = async (productId: string): Promise<unknown> =>
    (await operator.post(`/v1/products/${productId}/stock-adjustments`, { delta: 0, reason: 'look' })).body
      .stock;

  it('go from cart to paid, and tell their owner what happened', async () => {
    const productId = await newProduct(3);
    const placed = await ann.post('/v1/orders', orderOf(productId, 2));
    expect(placed.status).to.equal(201);
    expect(placed.body).to.include({ status: 'created', totalMinor: 500, currency: 'EUR', version: 1 });
    expect(placed.headers.get('etag')).to.equal('"1"');
    const orderId = placed.body.orderId as string;

    const payment = await ann.post(`/v1/orders/${orderId}/payments`, { amountMinor: 500, method: 'card' });
    expect(payment.status).to.equal(201);
    expect(problemOf(await ann.post(`/v1/payments/${payment.body.paymentId}/confirm`))).to.equal(
      'role-insufficient',
    );
    const confirmed = await operator.post(`/v1/payments/${payment.body.paymentId}/confirm`);
    expect(confirmed.body).to.include({ status: 'paid', orderId });

    const history = await eventually(async () => {
      const answer = await ann.get(`/v1/orders/${orderId}/events`);
      expect(answer.body.version).to.equal(2);
      return answer;
    });
    const events = history.body.events as { type: string; version: number; data: Record<string, unknown> }[];
    expect(events.map(({ type, version }) => `${version} ${type}`)).to.deep.equal([
      '1 loopers.order.created.v1',
      '2 loopers.order.paid.v1',
    ]);
    expect(events[1]?.data.items).to.deep.equal([{ productId, quantity: 2, unitPriceMinor: 250 }]);
    expect(problemOf(await bob.get(`/v1/orders/${orderId}/events`))).to.equal('not-yours');
    expect(problemOf(await bob.post(`/v1/orders/${orderId}/cancel`))).to.equal('not-yours');
  });

  it('are refused with an If-Match from yesterday', async () => {
    const productId = await newProduct(3);
    const adjust = (etag: string) =>
      operator.post(
        `/v1/products/${productId}/stock-adjustments`,
        { delta: 1, reason: 'r' },
        { 'if-match': etag },
      );
    expect((await adjust('"1"')).headers.get('etag')).to.equal('"2"');
    const stale = await adjust('"1"');
    expect(stale.status).to.equal(412);
    expect(stale.body.currentVersion).to.equal(2);
  });

  it('sell the last ten pieces to ten of fifty buyers, with one word that they are gone', async () => {
    const productId = await newProduct(10);
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => ann.post('/v1/orders', orderOf(productId))),
    );
    const statuses = answers.map(({ status }) => status).toSorted();
    expect(statuses).to.deep.equal([...Array(10).fill(201), ...Array(40).fill(409)]);
    expect(await stockOf(productId)).to.equal(0);
    const topic = workspace().unique('stock-events');
    await eventually(async () => {
      const records = await readTopic(workspace().endpoints.kafkaBrokers, topic);
      const mine = records.filter(
        ({ key, value }) => key === productId && value?.includes('loopers.stock.depleted.v1'),
      );
      expect(mine).to.have.length(1);
    });
  });

  it('take effect once under one key, also over a restart', async () => {
    const productId = await newProduct(100);
    const again = { 'idempotency-key': `"${randomUUID()}"` };
    const first = await startTestApp(workspace(), 'api');
    const twins = await Promise.all(
      Array.from({ length: 20 }, () => first.client.post('/v1/orders', orderOf(productId), again)),
    );
    const accepted = twins.filter(({ status }) => status === 201);
    expect(accepted.length).to.be.at.least(1);
    expect(new Set(accepted.map(({ body }) => JSON.stringify(body))).size).to.equal(1);
    const others = twins.filter(({ status }) => status !== 201);
    expect(new Set(others.map(problemOf))).to.satisfy((found: Set<string>) =>
      [...found].every((problem) => problem === 'idempotency-key-in-flight'),
    );
    await first.stop();

    const second = await startTestApp(workspace(), 'api');
    const later = await second.client.post('/v1/orders', orderOf(productId), again);
    expect(later.status).to.equal(201);
    expect(later.headers.get('idempotent-replayed')).to.equal('true');
    expect(later.body).to.deep.equal(accepted[0]?.body);
    const other = await second.client.post('/v1/orders', orderOf(productId, 2), again);
    expect(other.status).to.equal(422);
    expect(await stockOf(productId)).to.equal(99);
  });

  it('never fail inside, whatever is sent, and always answer as documented', async () => {
    const document = (await operator.get('/openapi.json')).body as unknown as OpenApiDocument;
    const expectDocumented = createDocumentCheck(document);
    const options = { authorization: `Bearer ${operatorKey}`, knownIds: [await newProduct(5)] };
    // A stream has no end to wait for.
    const operations = operationsOf(document).filter(
      ({ security, responses }) => security.length > 0 && !responses[200]?.content?.['text/event-stream'],
    );
    expect(operations.length).to.be.at.least(12);
    for (const operation of operations) {
      const anything = fc.oneof(validRequest(operation, options), mutatedRequest(operation, options));
      for (const { method, url, headers: made, body } of fc.sample(anything, 60)) {
        // A token that names events of nobody would be waited for in vain.
        const { 'consistency-token': _, ...headers } = made;
        const sent = await sendRaw(operator.url, { method, url, headers, body });
        if (!sent) continue;
        expect(sent.statusCode, `${method} ${url}: ${sent.body}`).to.be.lessThan(500);
        expectDocumented({ method, url, ...sent });
      }
    }
  });
});

/** Undefined where fetch itself refuses to send such a thing. */
const sendRaw = async (
  base: string,
  {
    method,
    url,
    headers,
    body,
  }: { method: string; url: string; headers: Readonly<Record<string, string>>; body: Buffer | undefined },
) => {
  let request: Request;
  try {
    request = new Request(`${base}${url}`, {
      method,
      headers,
      ...(body && method !== 'GET' && { body: new Uint8Array(body) }),
    });
  } catch {
    return undefined;
  }
  const response = await fetch(request);
  return {
    statusCode: response.status,
    headers: Object.fromEntries(response.headers),
    body: await response.text(),
  };
};
