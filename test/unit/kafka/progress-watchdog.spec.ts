import { expect } from 'chai';
import { ProgressWatchdog, type SilentPlace } from '../../../src/kafka/progress-watchdog.ts';
import { recordingLog } from '../../support/silent-log.ts';

const stallMs = 60_000;

describe('progress watchdog', () => {
  const create = () => {
    const { log, lines } = recordingLog();
    const state = {
      nowMs: 1_000_000,
      heardMs: 1_000_000,
      end: 10,
      restarts: 0,
      asked: 0,
      isBrokerAway: false,
    };
    const silent: SilentPlace = { topic: 'a', partition: 2, offset: 5 };
    const watchdog = new ProgressWatchdog({
      stallMs,
      clock: () => state.nowMs,
      silentSince: (timeMs) => (state.heardMs < timeMs ? [silent] : []),
      endOffsets: async () => {
        state.asked++;
        if (state.isBrokerAway) throw new Error('connect ECONNREFUSED');
        return new Map([[2, state.end]]);
      },
      restart: async () => {
        state.restarts++;
      },
      log,
    });
    const errors = () => lines.filter(({ level }) => level >= 50);
    return { watchdog, state, errors };
  };

  it('does nothing, and asks nobody, while records come or there are none', async () => {
    const { watchdog, state } = create();
    state.nowMs += stallMs;
    await watchdog.look();
    expect(state).to.include({ asked: 0, restarts: 0 });
  });

  it('starts the consumer anew and says where it stood when the broker has what does not come', async () => {
    const { watchdog, state, errors } = create();
    state.nowMs += stallMs + 1;
    await watchdog.look();
    expect(state.restarts).to.equal(1);
    expect(errors()).to.have.length(1);
    expect(errors()[0]).to.deep.include({ places: [{ topic: 'a', partition: 2, offset: 5, end: 10 }] });
  });

  it('leaves a place alone for which the broker has nothing', async () => {
    const { watchdog, state, errors } = create();
    state.nowMs += stallMs * 10;
    state.end = 5;
    await watchdog.look();
    expect(state).to.include({ asked: 1, restarts: 0 });
    expect(errors()).to.deep.equal([]);
  });

  it('does not take a broker that is away for a consumer that sleeps', async () => {
    const { watchdog, state, errors } = create();
    state.nowMs += stallMs * 10;
    state.isBrokerAway = true;
    await watchdog.look();
    expect(state.restarts).to.equal(0);
    expect(errors()).to.deep.equal([]);
    state.isBrokerAway = false;
    await watchdog.look();
    expect(state.restarts).to.equal(1);
  });

  it('gives a restart that does not help more and more time', async () => {
    const { watchdog, state } = create();
    const restartsAfter: number[] = [];
    for (let minutes = 1; minutes <= 40; minutes++) {
      state.nowMs += stallMs;
      const before = state.restarts;
      await watchdog.look();
      if (state.restarts > before) {
        restartsAfter.push(minutes);
        // Places are heard of when they are assigned anew.
        state.heardMs = state.nowMs;
      }
    }
    const pauses = restartsAfter.slice(1).map((at, index) => at - (restartsAfter[index] ?? 0));
    expect(pauses.slice(0, 3)).to.deep.equal([3, 5, 9]);
    expect(Math.max(...pauses), 'but not for ever').to.be.at.most(9);
  });

  it('is as quick as before once the restart has helped', async () => {
    const { watchdog, state } = create();
    state.nowMs += stallMs + 1;
    await watchdog.look();
    for (let minutes = 0; minutes < 3; minutes++) {
      state.nowMs += stallMs;
      state.heardMs = state.nowMs;
      await watchdog.look();
    }
    state.nowMs += stallMs + 1;
    await watchdog.look();
    expect(state.restarts).to.equal(2);
  });
});
