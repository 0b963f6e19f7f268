import { expect } from 'chai';
import { type Adapters, openAdapters } from '../../../src/app/adapters.ts';
import { readPipelineStatus } from '../../../src/app/pipeline-status.ts';
import { picture } from '../../../src/cli/status.ts';
import { orderId, paymentId, productId, userId } from '../../../src/domain/ids.ts';
import { eventually } from '../../support/eventually.ts';
import { startTestApp } from '../../support/running-app.ts';
import { openShopTraffic, type ShopTraffic } from '../../support/shop-traffic.ts';
import { silentLog } from '../../support/silent-log.ts';
import { useWorkspace } from '../../support/stack.ts';

const order = {
  orderId: orderId('early'),
  userId: userId('ann'),
  items: [{ productId: productId('p'), quantity: 1, unitPriceMinor: 100 }],
  total: { amountMinor: 100, currency: 'EUR' },
};

describe('keys that stand still', function () {
  this.timeout(120_000);
  const workspace = useWorkspace();
  let adapters: Adapters;
  let traffic: ShopTraffic;
  before(async () => {
    const space = workspace();
    traffic = await openShopTraffic(space);
    space.closeAtEnd(() => traffic.close());
    adapters = openAdapters(space.config, space.endpoints, silentLog());
    space.closeAtEnd(() => adapters.database.close());
    await startTestApp(space, 'projector');
  });
  const status = () => readPipelineStatus(adapters, workspace().config, workspace().endpoints);

  it('are told while a version is missing, and not any more when it has come', async () => {
    const write = (message: ReturnType<ShopTraffic['framed']>) => traffic.writeRaw('order-events', [message]);
    await write(
      traffic.framed(
        { type: 'OrderPaid', ...order, paymentId: paymentId('x') },
        { aggregateId: 'early', version: 2 },
      ),
    );
    const told = await eventually(async () => {
      const found = await status();
      expect(found.standingKeys).to.have.length(1);
      return found;
    });
    expect(told.standingKeys[0]).to.include({
      projection: 'order-view',
      because: 'version-missing',
      keys: 1,
      records: 1,
      example: 'early',
    });
    expect(picture(told, new Date())).to.match(
      /order-view: 1 key stands still with 1 record \(early, .* ago\)/,
    );

    await write(traffic.framed({ type: 'OrderCreated', ...order }, { aggregateId: 'early', version: 1 }));
    await eventually(async () => expect((await status()).standingKeys).to.deep.equal([]));
  });
});
