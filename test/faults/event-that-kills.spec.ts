import { join } from 'node:path';
import { expect } from 'chai';
import { appendEvents } from '../../src/journal/append-events.ts';
import { fatalPortsVariable, fatalTextVariable } from '../support/die-at-text.ts';
import { eventually } from '../support/eventually.ts';
import { viewOf } from '../support/journal.ts';
import type { RelayProcess } from '../support/relay-processes.ts';
import { useRelayScene } from '../support/relay-scene.ts';

const fatalKey = 'fatal-aggregate';

describe('an event that ends every process that comes to it', function () {
  this.timeout(900_000);
  const { workspace, database, relays, writers, judge } = useRelayScene();

  const environment = (): Record<string, string> => ({
    NODE_OPTIONS: `--import ${join(import.meta.dirname, '..', 'support', 'die-at-text.ts')}`,
    [fatalTextVariable]: fatalKey,
    [fatalPortsVariable]: workspace()
      .endpoints.kafkaBrokers.map((broker) => broker.split(':')[1])
      .join(),
    RELAY_SUSPECT_AFTER_DEATHS: '2',
  });

  /** As whatever runs the relays in production does it: two of them, and another one for each that ends. */
  const keepTwoRunning = (isOver: () => boolean) => {
    let deaths = 0;
    const keepOne = async (): Promise<void> => {
      while (!isOver()) {
        const relay: RelayProcess = await relays.begin(environment());
        const code = await Promise.race([
          relay.ended,
          eventually(() => expect(isOver()).to.equal(true), { timeoutMs: 900_000 }),
        ]);
        if (!isOver() && code === null) deaths += 1;
      }
    };
    return { deaths: () => deaths, finished: Promise.all([keepOne(), keepOne()]) };
  };

  const deadLetters = () =>
    database().execute<{ id: string; reason: string }>({
      name: 'spec-dead',
      text: `select envelope->>'aggregateId' as id, reason from outbox_dead_letter`,
    });

  it('is found, put aside with its aggregate, and given up; everything else gets through in order', async () => {
    const writing = writers.start({ name: 'before' });
    await appendEvents(database(), [viewOf('beside', 1), viewOf(fatalKey, 1), viewOf('beside', 2)]);
    await appendEvents(database(), [viewOf(fatalKey, 2), viewOf('beside', 3)]);
    let isOver = false;
    const kept = keepTwoRunning(() => isOver);
    try {
      await eventually(async () => expect(await deadLetters()).to.have.length(1), { timeoutMs: 480_000 });
      const [letter] = await deadLetters();
      expect(letter?.id).to.equal(fatalKey);
      expect(letter?.reason).to.match(/processes ended/);
      await writing.stop();
      await appendEvents(database(), [viewOf(fatalKey, 3), viewOf('beside', 4)]);
      const held = [1, 2, 3].map((version) => `${fatalKey}@${version}`);
      await judge().allAccountedFor({ held });
      expect(kept.deaths(), 'processes that had to end').to.be.within(3, 8);
    } finally {
      isOver = true;
      await kept.finished;
    }
  });
});
