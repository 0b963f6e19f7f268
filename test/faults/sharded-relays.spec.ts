import { expect } from 'chai';
import { reshard } from '../../src/relay/reshard.ts';
import { environmentOf, runCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { useRelayScene } from '../support/relay-scene.ts';

const shards = { RELAY_SHARDS: '4' };

describe('relays that share the journal', function () {
  this.timeout(600_000);
  const { workspace, database, relays, writers, judge } = useRelayScene();

  /** How many shards each relay has, fewest first. */
  const shares = async (): Promise<readonly number[]> =>
    (
      await database().execute<{ count: number }>({
        name: 'spec-shares',
        text: `
          select count(*) as count from scheduler_lock
          where name like 'outbox-relay-main%' and locked_until > clock_timestamp()
          group by locked_by order by 1`,
      })
    ).map(({ count }) => count);
  const shared = (expected: readonly number[]) =>
    eventually(async () => expect(await shares()).to.deep.equal(expected), {
      timeoutMs: 120_000,
      what: 'shards by relay',
    });
  const millrace = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await runCli(args, environmentOf(workspace()));
    expect(code, stderr).to.equal(0);
    return stdout;
  };

  it('take over the shards of one that is killed, and share again with one that joins', async () => {
    const first = await relays.start(shards);
    await shared([4]);
    const writing = writers.start({ name: 'spread', aggregates: 16 });
    const second = await relays.start(shards);
    await shared([2, 2]);
    await eventually(
      () => {
        expect(first.kafka.acknowledged()).to.be.greaterThan(5);
        expect(second.kafka.acknowledged()).to.be.greaterThan(5);
      },
      { timeoutMs: 120_000, what: 'records from both' },
    );
    await first.kill();
    await shared([4]);
    expect(second.stderr()).to.match(/stopped answering without giving its lease back/);
    await relays.start(shards);
    await shared([2, 2]);
    await writing.stop();
    await judge().allAccountedFor();
  });

  it('go on while their number changes, and while one is killed in the middle of that', async () => {
    const running = [await relays.start(shards), await relays.start(shards)];
    await shared([2, 2]);
    const writing = writers.start({ name: 'resharded', aggregates: 16 });
    const plan = JSON.parse(await millrace('relay', 'reshard', '2', '--dry-run', '--json'));
    expect(plan).to.include({ dryRun: true, from: 4, to: 2 });
    expect(await millrace('relay', 'reshard', '2')).to.match(/^4 shards have become 2/);
    for (const [from, to] of [
      [2, 5],
      [5, 1],
      [1, 3],
    ] as const) {
      const before = running.reduce((sum, { kafka }) => sum + kafka.acknowledged(), 0);
      expect(await reshard(database(), { shards: to, who: 'spec' })).to.include({ from, to });
      if (to === 5) await running[0]?.kill();
      if (to === 1) running.push(await relays.start(shards));
      await eventually(
        () =>
          expect(running.reduce((sum, { kafka }) => sum + kafka.acknowledged(), 0)).to.be.greaterThan(
            before + 3,
          ),
        { timeoutMs: 120_000, what: `records after ${from} → ${to}` },
      );
    }
    await writing.stop();
    await judge().allAccountedFor();
    await shared([1, 2]);
    const status = JSON.parse(await millrace('relay', 'status', '--json'));
    expect(status.shards).to.have.length(3);
    expect(status.pending).to.equal(0);
  });

  it('are told when they want another number, and cannot read the log while there are several', async () => {
    const relay = await relays.start(shards);
    expect(relay.stderr()).to.match(/npx millrace relay reshard 4/);
    const reader = await relays.begin({ RELAY_SOURCE: 'wal' });
    expect(await reader.ended).to.equal(1);
    expect(reader.stderr()).to.match(/one shard only.*millrace relay reshard 1/);
    const undecided = await relays.begin({ ...shards, RELAY_SOURCE: 'wal' });
    expect(await undecided.ended).to.equal(2);
    expect(undecided.stderr()).to.match(/RELAY_SHARDS is 4/);
  });
});
