import { expect } from 'chai';
import { type RunningBuild, runLiveBuild } from '../../../src/app/run-live-build.ts';
import type { PauseGate } from '../../../src/streams/pause-gate.ts';
import type { LiveBuild } from '../../../src/streams-postgres/builds/live-build.ts';
import { eventually } from '../../support/eventually.ts';
import { facts, specTopology } from '../../support/json-stream.ts';
import { keepLines } from '../../support/logged-lines.ts';

const topology = specTopology((t) => t.stream(facts).to({ name: 'alarms' }, ({ of }) => of));
const active: LiveBuild = {
  version: 1,
  definitionVersion: 1,
  topicGrowths: 0,
  checkpointResets: 0,
  awaitsFill: false,
  pause: null,
};
const pause = { by: 'operator:ann', since: new Date(1000), because: 'a bad release' };
const paused: LiveBuild = { ...active, pause };

describe('running the live build of a projection', () => {
  const running: RunningBuild[] = [];
  afterEach(async () => {
    for (const build of running.splice(0)) await build.stop();
  });

  const run = async (first: LiveBuild) => {
    const { log, lines } = keepLines();
    const gates: PauseGate[] = [];
    let answer: LiveBuild | Error = first;
    let looks = 0;
    const build = await runLiveBuild({
      topology,
      findLive: async () => {
        looks++;
        if (answer instanceof Error) throw answer;
        return answer;
      },
      fills: { lacking: () => {}, complete: () => {} },
      takeOver: async () => 'no',
      run: async (_, gate) => {
        gates.push(gate);
        return { failed: new Promise<Error>(() => {}), stop: async () => {} };
      },
      log,
    });
    running.push(build);
    return {
      lines: () => lines.filter(({ level }) => level >= 30).map(({ msg }) => msg),
      gates,
      /** From now on every look finds this; comes back when one has. */
      find: async (next: LiveBuild | Error) => {
        answer = next;
        const before = looks;
        // The second one begins when the first has done its work.
        build.look();
        build.look();
        await eventually(() => expect(looks).to.be.greaterThan(before + 1));
      },
    };
  };

  it('begins paused when it is, and says each change once', async () => {
    const { gates, lines, find } = await run(paused);
    expect(gates.map(({ isPaused }) => isPaused)).to.deep.equal([true]);
    await find(paused);
    await find(active);
    expect(gates[0]?.isPaused).to.equal(false);
    await find(paused);
    expect(gates[0]?.isPaused).to.equal(true);
    expect(gates).to.have.length(1);
    const saidOfPause =
      'The projection is paused: it reads and commits nothing until npx millrace topologies resume spec';
    expect(lines()).to.deep.equal([saidOfPause, 'The projection goes on after its pause', saidOfPause]);
  });

  it('keeps what it knew last while the database does not answer', async () => {
    const { gates, find } = await run(active);
    await find(paused);
    await find(new Error('connection refused'));
    expect(gates[0]?.isPaused).to.equal(true);
    await find(active);
    expect(gates[0]?.isPaused).to.equal(false);
    await find(new Error('connection refused'));
    expect(gates[0]?.isPaused).to.equal(false);
  });

  it('stays paused when another build takes its place', async () => {
    const { gates, find } = await run(paused);
    await find({ ...paused, version: 2 });
    expect(gates.map(({ isPaused }) => isPaused)).to.deep.equal([true, true]);
  });
});
