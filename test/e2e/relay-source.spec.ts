import { expect } from 'chai';
import { eventually } from '../support/eventually.ts';
import { startTestApp } from '../support/running-app.ts';
import { useWorkspace, type Workspace } from '../support/stack.ts';
import { readTopic } from '../support/topic-reader.ts';

describe('a relay that changes its source', function () {
  this.timeout(300_000);
  const workspace = useWorkspace();

  const withSource = (space: Workspace, source: 'cursor' | 'wal'): Workspace => ({
    ...space,
    config: { ...space.config, relay: { ...space.config.relay, source, leaseMs: 1000 } },
  });

  it('from the table to the log and back loses nothing, and sends what CloudEvents requires', async () => {
    let views = 0;
    for (const source of ['cursor', 'wal', 'wal', 'cursor'] as const) {
      const { client, stop } = await startTestApp(withSource(workspace(), source));
      if (views === 0) {
        await client.post('/v1/products', {
          productId: 'p',
          name: 'Mill',
          priceMinor: 1,
          currency: 'EUR',
          stock: 1,
        });
      }
      for (let turn = 0; turn < 10; turn++) await client.post('/v1/products/p/views');
      views += 10;
      await eventually(async () => {
        const { body } = await client.get('/v1/products/p/statistic');
        expect(body.viewCount, source).to.equal(views);
      });
      // Written while nobody relays: whoever comes next publishes it.
      await stop();
    }
    const records = await readTopic(
      workspace().endpoints.kafkaBrokers,
      workspace().unique('product-view-events'),
    );
    const ids = new Set(records.map(({ headers }) => headers.ce_id));
    expect(ids.size).to.equal(views);
    expect(records[0]?.headers).to.include({
      ce_specversion: '1.0',
      ce_type: 'loopers.product.viewed.v1',
      ce_source: 'millrace',
      'content-type': 'application/avro',
    });
  });
});
