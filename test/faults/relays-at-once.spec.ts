import { expect } from 'chai';
import { useRelayScene } from '../support/relay-scene.ts';

describe('several relays at once', function () {
  this.timeout(600_000);
  const { relays, writers, judge } = useRelayScene();

  for (const count of [2, 4]) {
    it(`publish everything in order as if they were one: ${count}`, async () => {
      const writing = writers.start({ name: `of-${count}` });
      const started = await Promise.all(Array.from({ length: count }, () => relays.start()));
      await writing.stop();
      await judge().allAccountedFor();
      expect(started.map(({ child }) => child.exitCode)).to.deep.equal(started.map(() => null));
      expect(started.filter(({ kafka }) => kafka.acknowledged() > 0)).to.have.length.at.least(1);
    });
  }
});
