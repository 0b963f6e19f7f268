import { expect } from 'chai';
import type { RelayProcess } from '../support/relay-processes.ts';
import { useRelayScene } from '../support/relay-scene.ts';
import { useStatementGate } from '../support/statement-gate.ts';
import { writeAggregates } from '../support/write-aggregates.ts';

describe('a relay that is killed', function () {
  this.timeout(600_000);
  const { database, relays, writers, judge } = useRelayScene();
  const cursorGate = useStatementGate(database, 'outbox_cursor');

  /** Ends it at that moment; what it waited for reaches nobody. */
  const killAt = async (
    relay: RelayProcess,
    moment: 'onRecords' | 'onAcknowledgement',
    requestsBefore: number,
  ): Promise<void> => {
    relay.kafka.hooks[moment] = async (countBefore) => {
      if (countBefore >= requestsBefore) await relay.kill();
    };
    await relay.ended;
  };

  it('again and again, before and after the broker has the records, loses nothing and keeps order', async () => {
    const writing = writers.start({ name: 'killed' });
    for (const [moment, requestsBefore] of [
      ['onRecords', 0],
      ['onAcknowledgement', 4],
      ['onRecords', 2],
      ['onAcknowledgement', 0],
      ['onRecords', 9],
    ] as const) {
      await killAt(await relays.begin(), moment, requestsBefore);
    }
    await relays.start();
    await writing.stop();
    await judge().allAccountedFor();
  });

  it('three times at the same page, which the broker has and it does not know, sends it once more', async () => {
    await writeAggregates(database(), { name: 'unaware', versions: 2 });
    for (let death = 0; death < 3; death++) await killAt(await relays.begin(), 'onAcknowledgement', 0);
    await relays.start();
    const { duplicates } = await judge().allAccountedFor();
    expect(duplicates, 'sent more than once').to.be.greaterThan(0);
  });

  it('three times between the acknowledgement and the move of the cursor, sends the page once more', async () => {
    const { duplicates: before } = await judge().verdict();
    await writeAggregates(database(), { name: 'unmoved', versions: 2 });
    for (let death = 0; death < 3; death++) {
      await cursorGate.close();
      const relay = await relays.begin();
      await cursorGate.somebodyWaits();
      // The cursor also moves over what has nothing in it: the end of a page that the relay before has settled.
      while (relay.kafka.acknowledged() === 0) {
        await cursorGate.letOneThrough();
        await cursorGate.somebodyWaits();
      }
      await relay.kill();
      await cursorGate.turnAway();
    }
    await relays.start();
    const { duplicates } = await judge().allAccountedFor();
    expect(duplicates - before, 'sent more than once').to.be.greaterThan(0);
  });
});
