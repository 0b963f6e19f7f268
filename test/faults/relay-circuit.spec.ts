import { expect } from 'chai';
import { productId } from '../../src/domain/ids.ts';
import { appendEvents } from '../../src/journal/append-events.ts';
import { readyUrl } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { sealed } from '../support/journal.ts';
import type { RelayProcess } from '../support/relay-processes.ts';
import { useRelayScene } from '../support/relay-scene.ts';
import { eventOf, writeAggregates } from '../support/write-aggregates.ts';

describe('a circuit that opens in the middle of a batch', function () {
  this.timeout(600_000);
  const { database, relays, judge } = useRelayScene();

  const circuitIs = (relay: RelayProcess, state: string): Promise<unknown> =>
    eventually(
      () => expect(relay.log().map(({ msg }) => msg)).to.include(`The circuit to Kafka is ${state}`),
      { timeoutMs: 120_000 },
    );

  const failedRows = () =>
    database().execute({ name: 'spec-failed', text: 'select outbox_id, retry_count from outbox_failed' });

  it('leaves what was not tried untried, and goes on in order when its trials succeed', async () => {
    // One record that is refused: the batch is split, so that it takes several sends.
    await writeAggregates(database(), { name: 'before', versions: 2 });
    await appendEvents(database(), [
      sealed({ aggregateType: 'Product', aggregateId: 'huge-stock' }, 1, {
        type: 'ProductRegistered',
        productId: productId('huge-stock'),
        name: 'x'.repeat(2_000_000),
        price: { amountMinor: 1, currency: 'EUR' },
        stock: 1,
      }),
      eventOf('huge-stock', 2),
    ]);
    await writeAggregates(database(), { name: 'behind', versions: 2 });

    const relay = await relays.begin({
      RELAY_BATCH_SIZE_MAX: '1000',
      RELAY_BREAKER_CALLS_MIN: '2',
      RELAY_BREAKER_OPEN_MS: '2000',
      RELAY_RETRIES_MAX: '1000',
      KAFKA_RETRIES_MAX: '1',
    });
    // The broker answers the whole batch; a part of it never gets there.
    relay.kafka.hooks.onRecords = (requestsBefore) => {
      if (requestsBefore >= 1) relay.kafka.refuse();
    };
    await readyUrl(relay, 120_000);
    await circuitIs(relay, 'open');
    expect(await failedRows()).to.deep.equal([]);
    expect((await judge().verdict()).missing).to.include.members(['huge-stock@1', 'huge-stock@2']);

    relay.kafka.heal();
    await circuitIs(relay, 'closed');
    await judge().allAccountedFor({ held: ['huge-stock@1', 'huge-stock@2'] });
  });
});
