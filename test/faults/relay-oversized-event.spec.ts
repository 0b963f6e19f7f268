import { expect } from 'chai';
import kafkajs from 'kafkajs';
import { productId } from '../../src/domain/ids.ts';
import { appendEvents } from '../../src/journal/append-events.ts';
import type { SealedEvent } from '../../src/journal/seal-event.ts';
import { environmentOf, runCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { sealed } from '../support/journal.ts';
import { useRelayScene } from '../support/relay-scene.ts';
import { eventOf } from '../support/write-aggregates.ts';

const { ConfigResourceTypes, Kafka, logLevel } = kafkajs;

describe('an event that is larger than the broker takes', function () {
  this.timeout(600_000);
  const { workspace, database, relays, writers, judge } = useRelayScene();

  /** What the broker takes in the topic of products. */
  const setLimit = async (bytes: number): Promise<void> => {
    const { endpoints, unique } = workspace();
    const admin = new Kafka({
      brokers: [...endpoints.kafkaBrokers],
      connectionTimeout: 30_000,
      logLevel: logLevel.NOTHING,
    }).admin();
    await admin.connect();
    try {
      await admin.alterConfigs({
        validateOnly: false,
        resources: [
          {
            type: ConfigResourceTypes.TOPIC,
            name: unique('stock-events'),
            configEntries: [{ name: 'max.message.bytes', value: String(bytes) }],
          },
        ],
      });
    } finally {
      await admin.disconnect();
    }
  };

  const hugeEvent = (aggregateId: string): SealedEvent =>
    sealed({ aggregateType: 'Product', aggregateId }, 1, {
      type: 'ProductRegistered',
      productId: productId(aggregateId),
      name: 'x'.repeat(2_000_000),
      price: { amountMinor: 1, currency: 'EUR' },
      stock: 1,
    });

  /** Among others, and later ones behind it that could be sent; answers with what is to be held. */
  const write = async (aggregateId: string): Promise<readonly string[]> => {
    const fine = `${aggregateId}-beside-stock`;
    await appendEvents(database(), [eventOf(fine, 1), hugeEvent(aggregateId), eventOf(fine, 2)]);
    for (let version = 2; version <= 6; version++) {
      await appendEvents(database(), [eventOf(aggregateId, version), eventOf(fine, version + 1)]);
    }
    return Array.from({ length: 6 }, (_, index) => `${aggregateId}@${index + 1}`);
  };

  /** Pages so small that an aggregate lies in several that follow each other. */
  const smallPages = { RELAY_BATCH_SIZE_MAX: '3' };

  const deadEventId = (): Promise<number> =>
    eventually(
      async () => {
        const [row] = await database().execute<{ id: number }>({
          name: 'spec-dead',
          text: 'select outbox_id as id from outbox_failed where dead_at is not null',
        });
        if (!row) throw new Error('No event is dead yet');
        return row.id;
      },
      { timeoutMs: 120_000 },
    );

  const run = async (...args: readonly string[]): Promise<void> => {
    const { code, stderr } = await runCli(args, environmentOf(workspace()));
    expect(code, stderr).to.equal(0);
  };

  it('stands alone with its aggregate behind it, and all of it follows in order when the limit is raised', async () => {
    const writing = writers.start({ name: 'meanwhile', aggregates: 2 });
    const held = await write('huge-stock');
    await relays.start({ ...smallPages, RELAY_RETRIES_MAX: '1000' });
    await writing.stop();
    await judge().allAccountedFor({ held });
    await setLimit(4_000_000);
    await judge().allAccountedFor();
    await appendEvents(database(), [eventOf('huge-stock', 7)]);
    await judge().allAccountedFor();
    await setLimit(1_000_000);
  });

  it('is dead after its last try, and its aggregate goes on without it when an operator drops it', async () => {
    const held = await write('dropped-stock');
    await relays.start({ ...smallPages, RELAY_RETRIES_MAX: '2' });
    const id = await deadEventId();
    await judge().allAccountedFor({ held });
    await run('outbox', 'drop', '--id', String(id), '--yes');
    await judge().allAccountedFor();
  });

  it('goes on from the dead when an operator has the limit raised and puts it back', async () => {
    const held = await write('revived-stock');
    await relays.start({ ...smallPages, RELAY_RETRIES_MAX: '2' });
    await deadEventId();
    await setLimit(4_000_000);
    await judge().allAccountedFor({ held });
    await run('outbox', 'retry', '--aggregate', 'Product/revived-stock');
    await judge().allAccountedFor();
  });
});
