import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { environmentOf, readyUrl, startCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { type Answer, type Client, clientOf, startTestApp } from '../support/running-app.ts';
import { useWorkspace } from '../support/stack.ts';

const workers = 50;
const pairsOfEach = 200;

describe('reading one’s own writes', function () {
  this.timeout(600_000);
  const workspace = useWorkspace();
  let writer: Client;
  let reader: Client;
  before(async () => {
    // One relays, one projects, and two processes take commands and queries as if they were one.
    await startTestApp(workspace(), 'relay');
    await startTestApp(workspace(), 'projector');
    [writer, reader] = await Promise.all([startApiProcess(), startApiProcess()]);
  });

  const startApiProcess = async (): Promise<Client> => {
    const started = startCli(['up', '--role', 'api'], {
      ...environmentOf(workspace()),
      RATE_LIMIT_COMMANDS_PER_MINUTE: '0',
      RATE_LIMIT_LIKES_AND_VIEWS_PER_MINUTE: '0',
    });
    workspace().closeAtEnd(async () => {
      started.child.kill('SIGTERM');
      await started.ended;
    });
    return clientOf(await readyUrl(started, 120_000));
  };

  const newProduct = async (stock = 5): Promise<string> => {
    const productId = `p-${randomUUID()}`;
    const answer = await writer.post('/v1/products', {
      productId,
      name: 'Lamp',
      priceMinor: 100,
      currency: 'EUR',
      stock,
    });
    expect(answer.status).to.equal(201);
    const found = await reader.get(`/v1/products/${productId}`, withToken(answer));
    expect(found.body).to.include({ name: 'Lamp', stock });
    return productId;
  };
  const withToken = ({ headers }: Answer, prefer = 'wait=30'): Record<string, string> => ({
    'consistency-token': headers.get('consistency-token') ?? '',
    prefer,
  });

  /** So many views of one product after the other, each asked for at the other process. Says how many answers were stale. */
  const viewAndAsk = async (pairs: number, headersOf: (answer: Answer) => Record<string, string>) => {
    const productId = await newProduct();
    let stale = 0;
    for (let turn = 1; turn <= pairs; turn++) {
      const [to, from] = turn % 2 ? [writer, reader] : [reader, writer];
      const viewed = await to.post(`/v1/products/${productId}/views`);
      expect(viewed.status).to.equal(201);
      const statistic = await from.get(`/v1/products/${productId}/statistic`, headersOf(viewed));
      if (statistic.body.viewCount !== turn) stale++;
    }
    return stale;
  };
  const allWorkers = async (count: number, work: () => Promise<number>): Promise<number> => {
    const stale = await Promise.all(Array.from({ length: count }, work));
    return stale.reduce((sum, own) => sum + own, 0);
  };

  it('shows every command to the query that brings its token, over two processes', async () => {
    expect(await allWorkers(workers, () => viewAndAsk(pairsOfEach, (answer) => withToken(answer)))).to.equal(
      0,
    );
  });

  it('is a matter of luck without a token', async () => {
    expect(await allWorkers(10, () => viewAndAsk(20, () => ({})))).to.be.greaterThan(0);
  });

  it('holds for orders, lists and products, and for a command that is repeated', async () => {
    const productId = await newProduct(3);
    const order = { userId: 'ann', items: [{ productId, quantity: 3 }] };
    const key = { 'idempotency-key': randomUUID() };
    const placed = await writer.post('/v1/orders', order, key);
    expect(placed.status).to.equal(201);
    const again = await reader.post('/v1/orders', order, key);
    expect(again.headers.get('consistency-token')).to.equal(placed.headers.get('consistency-token'));

    const path = `/v1/orders/${placed.body.orderId}`;
    expect((await reader.get(path, withToken(again))).body).to.include({ status: 'created' });
    expect((await reader.get(`/v1/products/${productId}`, withToken(placed))).body).to.include({ stock: 0 });
    const paying = await writer.post(`${path}/payments`, { amountMinor: 300, method: 'card' });
    const paid = await writer.post(`/v1/payments/${paying.body.paymentId}/confirm`);
    expect((await reader.get(path, withToken(paid))).body).to.include({ status: 'paid' });
    const listed = await reader.get('/v1/orders?userId=ann&status=paid', withToken(paid));
    expect(listed.body.orders).to.have.length(1);
  });

  it('says how far it is when the events do not come', async () => {
    const productId = await newProduct();
    expect((await writer.post('/admin/relay/pause', { reason: 'spec' })).status).to.equal(200);
    try {
      // A page may have been under way; what comes after it stays.
      await writer.post(`/v1/products/${productId}/views`);
      const answer = await eventually(async () => {
        const viewed = await writer.post(`/v1/products/${productId}/views`);
        const found = await reader.get(`/v1/products/${productId}/statistic`, withToken(viewed, 'wait=1'));
        expect(found.status).to.equal(503);
        return found;
      });
      expect(answer.body).to.include({ type: 'urn:millrace:problem:not-caught-up', awaited: 1, missing: 1 });
    } finally {
      await writer.post('/admin/relay/resume');
    }
  });
});
