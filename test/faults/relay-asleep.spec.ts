import { expect } from 'chai';
import { eventually } from '../support/eventually.ts';
import { useRelayScene } from '../support/relay-scene.ts';
import { writeAggregates } from '../support/write-aggregates.ts';

describe('a relay that sleeps past its lease', function () {
  this.timeout(600_000);
  const { database, relays, writers, judge } = useRelayScene();

  it('finds another one at work when it wakes up in the middle of a page, and changes nothing', async () => {
    // However long it sleeps, it believes that its page is on the way.
    const sleeper = await relays.start({
      KAFKA_REQUEST_TIMEOUT_MS: '300000',
      RELAY_PUBLISH_TIMEOUT_MS: '600000',
    });
    const awake = Promise.withResolvers<void>();
    let isAsleep = false;
    // The broker has the page, and the relay does not hear of it before it wakes up.
    sleeper.kafka.hooks.onAcknowledgement = () => {
      sleeper.child.kill('SIGSTOP');
      isAsleep = true;
      return awake.promise;
    };
    const writing = writers.start({ name: 'slept' });
    await eventually(() => expect(isAsleep).to.equal(true), { timeoutMs: 120_000 });
    const other = await relays.start();
    await eventually(() => expect(other.kafka.acknowledged()).to.be.greaterThan(0), { timeoutMs: 120_000 });
    await writing.stop();
    await judge().allAccountedFor();

    sleeper.kafka.heal();
    sleeper.child.kill('SIGCONT');
    awake.resolve();
    await eventually(
      () => expect(sleeper.stderr()).to.match(/went to another relay|another process relays/i),
      {
        timeoutMs: 120_000,
      },
    );
    expect(await sleeper.stop(), sleeper.stderr()).to.equal(0);
    expect(await other.stop(), other.stderr()).to.equal(0);

    // The cursor is where the other one left it: whoever comes next goes on from there and repeats nothing.
    const { duplicates } = await judge().allAccountedFor();
    await relays.start();
    await writeAggregates(database(), { name: 'afterwards', versions: 2 });
    expect(await judge().allAccountedFor()).to.include({ duplicates });
  });
});
