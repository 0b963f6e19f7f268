import { expect } from 'chai';
import { type BrokerReach, createBrokerReach } from '../../../src/relay/broker-reach.ts';
import { CircuitBreaker } from '../../../src/relay/circuit-breaker.ts';
import { createRelayControl } from '../../../src/relay/relay-control.ts';
import { createHandClock } from '../../support/hand-clock.ts';
import { recordingLog } from '../../support/silent-log.ts';

const handOverAfterMs = 20_000;
const beatMs = 10_000;
const breakerSettings = {
  windowCalls: 10,
  callsMin: 5,
  failureRatePercent: 50,
  openMs: 30_000,
  trialCalls: 3,
};

interface Player {
  readonly name: string;
  readonly reach: BrokerReach;
  /** Brokers that answer it, of three. */
  brokers: number;
  /** Whether a send would succeed. */
  canSend: boolean;
  probes: number;
}

/** Relays that want one lease, over a clock moved by hand: who holds it sends, and each tells the others how it fares. */
const createGame = (names: readonly string[]) => {
  const clock = createHandClock();
  const { log, lines } = recordingLog();
  const moves: string[] = [];
  let holder = names[0] as string;

  const players = names.map((name): Player => {
    const breaker = new CircuitBreaker({ settings: breakerSettings, clock: clock.now, onChange: () => {} });
    const player: Player = {
      name,
      brokers: 3,
      canSend: true,
      probes: 0,
      reach: createBrokerReach({
        breaker: {
          get failingMs() {
            if (holder === name) breaker[player.canSend ? 'succeeded' : 'failed']();
            return breaker.failingMs;
          },
        },
        countReachable: async () => {
          player.probes++;
          return player.brokers;
        },
        handOverAfterMs,
        control: createRelayControl(log),
        clock,
        log,
      }),
    };
    return player;
  });
  const [first, second] = players as [Player, Player];

  const beat = async (player: Player): Promise<void> => {
    const others = players.filter((other) => other !== player).map(({ reach }) => reach.word);
    const reached = others.filter(({ sitsOut }) => !sitsOut).flatMap((word) => word.reached ?? []);
    await player.reach.consider({
      isHolder: holder === player.name,
      areFailing: others.some(({ failingMs, sitsOut }) => failingMs !== null || sitsOut),
      reachedMost: reached.length > 0 ? Math.max(...reached) : null,
    });
    const next = players.find(({ reach }) => !reach.word.sitsOut);
    if (player.name === holder && player.reach.word.sitsOut && next) {
      holder = next.name;
      moves.push(`${player.name} → ${holder}`);
    }
  };
  return {
    first,
    second,
    moves,
    lines,
    holder: () => holder,
    play: async (timeMs: number): Promise<void> => {
      for (let elapsedMs = 0; elapsedMs < timeMs; elapsedMs += beatMs) {
        for (const player of players) await beat(player);
        await clock.advance(beatMs);
      }
    },
  };
};

describe('a relay that is cut off from the brokers', () => {
  it('gives its lease to one that reaches them, and says why', async () => {
    const { first, moves, lines, play } = createGame(['a', 'b']);
    Object.assign(first, { brokers: 0, canSend: false });
    await play(handOverAfterMs);
    expect(moves).to.deep.equal([]);
    await play(2 * beatMs);
    expect(moves).to.deep.equal(['a → b']);
    const told = lines.filter(({ level }) => level === 40);
    expect(told).to.have.length(1);
    expect(told[0]).to.include({ brokersReached: 0, reachedByOther: 3 });
    expect(told[0]?.msg).to.match(/gives its leases back and sits out/);
  });

  it('takes part again when it reaches them, and leaves the lease where it is', async () => {
    const { first, moves, lines, holder, play } = createGame(['a', 'b']);
    Object.assign(first, { brokers: 0, canSend: false });
    await play(600_000);
    expect(first.reach.word.sitsOut).to.equal(true);
    Object.assign(first, { brokers: 3, canSend: true });
    await play(600_000);
    expect(first.reach.word).to.deep.equal({ failingMs: null, reached: null, sitsOut: false });
    expect([holder(), moves]).to.deep.equal(['b', ['a → b']]);
    expect(lines.at(-1)?.msg).to.match(/takes part again/);
  });

  it('keeps it when nobody reaches them', async () => {
    const { first, second, moves, play } = createGame(['a', 'b']);
    for (const player of [first, second]) Object.assign(player, { brokers: 0, canSend: false });
    await play(600_000);
    expect(moves).to.deep.equal([]);
  });

  it('keeps it when the others reach no more, as when one of the brokers is to blame', async () => {
    const { first, second, moves, play } = createGame(['a', 'b']);
    for (const player of [first, second]) Object.assign(player, { brokers: 2, canSend: false });
    await play(600_000);
    expect(moves).to.deep.equal([]);
  });

  it('gives it away once when the other one cannot send either', async () => {
    const { first, second, moves, play } = createGame(['a', 'b']);
    Object.assign(first, { brokers: 1, canSend: false });
    Object.assign(second, { brokers: 2, canSend: false });
    await play(3_600_000);
    expect(moves).to.deep.equal(['a → b']);
  });

  it('keeps it while a send succeeds now and then', async () => {
    const { first, moves, play } = createGame(['a', 'b']);
    for (let turn = 0; turn < 20; turn++) {
      Object.assign(first, { brokers: 0, canSend: false });
      await play(beatMs);
      Object.assign(first, { canSend: true });
      await play(beatMs);
    }
    expect(moves).to.deep.equal([]);
  });

  it('is no reason to look at the brokers while everybody can send', async () => {
    const { first, second, play } = createGame(['a', 'b']);
    await play(600_000);
    expect([first.probes, second.probes]).to.deep.equal([0, 0]);
  });
});
