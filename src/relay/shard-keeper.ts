import type { Logger } from 'pino';
import type { Database } from '../postgres/database.ts';
import type { BrokerReach } from './broker-reach.ts';
import { fairShare, type ShareAnswer } from './fair-share.ts';
import { leaveLiveRelays, type RelayCrowd, standAside, tellThatRelayLives } from './live-relays.ts';
import { type Relay, startLoop } from './loop.ts';
import type { RelayObserver } from './relay-observer.ts';
import { leaseOfShard, type Shard } from './shard.ts';
import { createWakeSignal } from './wake-signal.ts';

export interface ShardKeeperOptions {
  readonly database: Database;
  readonly holder: string;
  readonly leaseMs: number;
  /** Starts relaying a shard; `onLost` is to be called when its lease has gone. */
  readonly startShard: (shard: Shard, onLost: () => void) => Promise<Relay>;
  /** How this process fares with the brokers; without it, it always takes part. */
  readonly brokers?: BrokerReach;
  readonly observer?: RelayObserver;
  readonly log: Logger;
}

/** What the trouble of finding shards and starting their relays goes by, beside those of the leases. */
export const shardKeeping = 'shards';

/** Runs the relays of as many shards as are this process's share, while processes come and go and the number changes. */
export const startShardKeeper = (options: ShardKeeperOptions): Relay => {
  const { database, holder, leaseMs, brokers, observer, log } = options;
  const wakeSignal = createWakeSignal();
  const shards = createRunningShards(options, wakeSignal.signal);
  /** Whether this process leaves its share to the others. */
  const sitsOut = ({ holders, othersFail, othersReach }: RelayCrowd): boolean => {
    if (!brokers) return false;
    const isHolder = Object.values(holders).includes(holder);
    const { sitsOut: satOut } = brokers.word;
    const looked = brokers.consider({ isHolder, areFailing: othersFail, reachedMost: othersReach });
    const { sitsOut: isOut } = brokers.word;
    // The others are to hear what is new now, and not a third of a lease later.
    if (isOut !== satOut) wakeSignal.signal();
    void looked.then((isNews) => isNews && wakeSignal.signal());
    return isOut;
  };
  const loop = startLoop({
    wakeSignal,
    log,
    step: async () => {
      const told = brokers && { brokers: brokers.word };
      const crowd = await tellThatRelayLives(database, { name: holder, aliveMs: leaseMs, ...told });
      if (sitsOut(crowd)) {
        shards.stopRunning();
        return leaseMs / 3;
      }
      if (shards.divideInto(crowd.shards))
        log.info({ shards: crowd.shards }, 'The number of shards in force');
      const { take, giveBack } = shareOf(crowd, holder, shards.numbers());
      for (const number of giveBack) shards.stop(number);
      try {
        for (const number of take) if (!shards.isLeaving(number)) await shards.start(number);
      } catch (error) {
        // The others must not wait for one that cannot take its share.
        await standAside(database, holder);
        throw error;
      }
      return leaseMs / 3;
    },
    onTrouble: (error) => observer?.troubleChanged(shardKeeping, error),
    afterTrouble: () => leaseMs / 3,
    finish: async () => {
      await shards.stopAll();
      await leaveLiveRelays(database, holder);
    },
    says: {
      trouble: 'The relay cannot find out which shards are its own; it keeps those it has and keeps asking',
      recovered: 'The relay knows its shards again',
      unfinished: 'The relay did not sign off',
      level: 'warn',
    },
  });
  return { wake: shards.wake, stop: loop.stop };
};

const shareOf = (
  { shards, live, holders }: RelayCrowd,
  me: string,
  running: ReadonlySet<number>,
): ShareAnswer => {
  // The only shard is waited for by every relay, each in its own loop: the first that gets the lease has it.
  if (shards === 1) return { take: running.has(1) ? [] : [1], giveBack: [] };
  const byNumber = new Map<number, string>();
  const lost: number[] = [];
  for (let number = 1; number <= shards; number++) {
    const held = holders[leaseOfShard({ number, of: shards })];
    if (running.has(number) && held !== undefined && held !== me) lost.push(number);
    // One that is just being given back is nobody's to count, and not free either.
    const owner = held === me && !running.has(number) ? `${me} (leaving)` : held;
    const holder = running.has(number) ? (owner ?? me) : owner;
    if (holder !== undefined) byNumber.set(number, holder);
  }
  const { take, giveBack } = fairShare({ shards, me, live, holders: byNumber });
  return { take, giveBack: [...lost, ...giveBack] };
};

const createRunningShards = ({ startShard, log }: ShardKeeperOptions, onChange: () => void) => {
  const running = new Map<number, Relay>();
  const stopping = new Map<Promise<void>, string>();
  let count = 0;

  // Not waited for: a page under way may take as long as the brokers let it, and who is silent for that long is taken
  // for dead.
  const stop = (number: number): void => {
    const relay = running.get(number);
    running.delete(number);
    if (!relay) return;
    const stopped = relay.stop().finally(() => {
      stopping.delete(stopped);
      onChange();
    });
    stopping.set(stopped, leaseOfShard({ number, of: count }));
    if (count > 1) log.info({ shard: number, of: count }, 'This process gives a shard back');
  };
  const stopRunning = (): void => {
    for (const number of [...running.keys()]) stop(number);
  };

  return {
    numbers: (): ReadonlySet<number> => new Set(running.keys()),
    /** It still has the lease, and gives it back when it is through with its page: a second relay would lose it then. */
    isLeaving: (number: number): boolean =>
      stopping.values().some((lease) => lease === leaseOfShard({ number, of: count })),
    wake: () => {
      for (const relay of running.values()) relay.wake();
    },
    /** True when the number is another one than before: what ran until now was for a division that is over. */
    divideInto: (shards: number): boolean => {
      if (shards === count) return false;
      stopRunning();
      count = shards;
      return true;
    },
    start: async (number: number): Promise<void> => {
      running.set(number, await startShard({ number, of: count }, onChange));
    },
    stop,
    stopRunning,
    stopAll: async (): Promise<void> => {
      stopRunning();
      await Promise.all(stopping.keys());
    },
  };
};
