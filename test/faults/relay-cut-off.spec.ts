import { expect } from 'chai';
import { eventually } from '../support/eventually.ts';
import type { RelayProcess } from '../support/relay-processes.ts';
import { useRelayScene } from '../support/relay-scene.ts';

/** Longer than the lease, so that it does not simply run out. */
const environment = { RELAY_HAND_OVER_AFTER_MS: '3000', RELAY_PUBLISH_TIMEOUT_MS: '3000' };
const timeoutMs = 120_000;

describe('a relay that is cut off from Kafka alone', function () {
  this.timeout(600_000);
  const { database, relays, writers, judge } = useRelayScene();

  const lease = async () => {
    const [held] = await database().execute<{ holder: string; token: number; lapses: number }>({
      name: 'spec-lease',
      text: `select locked_by as holder, token, lapses from scheduler_lock
             where name = 'outbox-relay-main' and locked_until > clock_timestamp()`,
    });
    return held;
  };
  const isHeldBy = async (relay: RelayProcess): Promise<boolean> =>
    (await lease())?.holder.includes(`/${relay.child.pid}/`) ?? false;
  const says = (relay: RelayProcess, text: RegExp): Promise<unknown> =>
    eventually(
      () =>
        expect(
          relay
            .log()
            .map(({ msg }) => msg)
            .join('\n'),
        ).to.match(text),
      { timeoutMs },
    );

  it('gives its lease to the one that stands by, and takes part again when the network is back', async () => {
    const first = await relays.start(environment);
    await eventually(async () => expect(await isHeldBy(first)).to.equal(true), { timeoutMs });
    const second = await relays.start(environment);
    const writing = writers.start({ name: 'cut-off' });
    await eventually(() => expect(first.kafka.acknowledged()).to.be.greaterThan(2), { timeoutMs });

    first.kafka.refuse();
    await says(first, /gives its leases back and sits out/);
    await eventually(async () => expect(await isHeldBy(second)).to.equal(true), { timeoutMs });
    const before = second.kafka.acknowledged();
    await eventually(() => expect(second.kafka.acknowledged()).to.be.greaterThan(before + 2), { timeoutMs });
    expect(await lease()).to.include({ lapses: 0 });

    first.kafka.heal();
    await says(first, /takes part again/);
    const { token } = (await lease()) ?? {};
    await writing.stop();
    await judge().allAccountedFor();
    expect(await isHeldBy(second)).to.equal(true);
    expect(await lease()).to.include({ token });

    // It is a standby like any other again.
    expect(await second.stop(), second.stderr()).to.equal(0);
    await eventually(async () => expect(await isHeldBy(first)).to.equal(true), { timeoutMs });
  });

  it('keeps its lease when no other one reaches the brokers either', async () => {
    const both = [await relays.start(environment), await relays.start(environment)];
    await eventually(async () => expect(await lease()).to.not.equal(undefined), { timeoutMs });
    const { token } = (await lease()) ?? {};
    for (const relay of both) relay.kafka.refuse();
    const writing = writers.start({ name: 'all-cut-off' });
    const reached = () =>
      database().execute<{ reached: number | null }>({
        name: 'spec-reached',
        text: `select brokers_reached as reached from relay_process
               where alive_until > clock_timestamp() and brokers_failing_since < clock_timestamp() - interval '5 s'`,
      });
    await eventually(async () => expect(await reached()).to.deep.equal([{ reached: 0 }]), { timeoutMs });
    expect(await lease()).to.include({ token });
    for (const relay of both) {
      expect(
        relay
          .log()
          .map(({ msg }) => msg)
          .join('\n'),
      ).to.not.match(/sits out/);
      relay.kafka.heal();
    }
    await writing.stop();
    await judge().allAccountedFor();
    expect(await lease()).to.include({ token });
  });
});
