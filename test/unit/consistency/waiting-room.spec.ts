import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import { type Look, TooManyWaiters, WaitingRoom } from '../../../src/consistency/waiting-room.ts';

const event = (eventId: string, model = 'orders', bucketStartMs = 0) => ({ eventId, model, bucketStartMs });

/** Models whose events a test puts in; each look is remembered. */
const createScene = (settings: { waitersMax?: number } = {}) => {
  const handled: { eventId: string; model: string; bucketStartMs: number; atMs: number }[] = [];
  const looks: (readonly Look[])[] = [];
  let nowMs = 1000;
  let trouble: Error | undefined;
  let isHeldUp = Promise.resolve();
  const troubles: Error[] = [];
  const counts: number[] = [];
  const room = new WaitingRoom({
    look: async (asked) => {
      looks.push(asked);
      await isHeldUp;
      if (trouble) throw trouble;
      return asked.map(({ model, bucketStartMs, withinMs = Number.POSITIVE_INFINITY }) =>
        handled
          .filter(
            (one) =>
              one.model === model && one.bucketStartMs === bucketStartMs && one.atMs >= nowMs - withinMs,
          )
          .map(({ eventId }) => eventId),
      );
    },
    clock: () => nowMs,
    settings: { lookIntervalMs: 1, waitersMax: settings.waitersMax ?? 100 },
    onTrouble: (error) => troubles.push(error),
    observer: { waitersChanged: (count) => counts.push(count) },
  });
  return {
    room,
    looks,
    counts,
    troubles,
    handle: (eventId: string, model = 'orders', bucketStartMs = 0, atMs = nowMs) =>
      handled.push({ eventId, model, bucketStartMs, atMs }),
    pass: (timeMs: number) => {
      nowMs += timeMs;
    },
    break: (error: Error | undefined) => {
      trouble = error;
    },
    holdUp: (until: Promise<void>) => {
      isHeldUp = until;
    },
  };
};

describe('the waiting room', () => {
  it('lets through at once who waits for nothing, without asking', async () => {
    const { room, looks } = createScene();
    expect(await room.wait([], { waitMs: 1000 })).to.deep.equal([]);
    expect(looks).to.deep.equal([]);
  });

  it('lets everybody through whose events are in, and tells the others what is missing', async () => {
    const { room, handle } = createScene();
    handle('a');
    const all = room.wait([event('a'), event('b')], { waitMs: 30 });
    expect(await room.wait([event('a')], { waitMs: 1000 })).to.deep.equal([]);
    expect(await all).to.deep.equal([event('b')]);
    handle('b');
    expect(await room.wait([event('a'), event('b')], { waitMs: 1000 })).to.deep.equal([]);
  });

  it('does not take an event of one model for that of another', async () => {
    const { room, handle } = createScene();
    handle('a', 'statistics');
    expect(await room.wait([event('a', 'orders')], { waitMs: 10 })).to.deep.equal([event('a', 'orders')]);
    expect(await room.wait([event('a', 'statistics')], { waitMs: 1000 })).to.deep.equal([]);
  });

  it('asks once for all who wait, and only for what is new', async () => {
    const scene = createScene();
    const gate = Promise.withResolvers<void>();
    scene.holdUp(gate.promise);
    const waiting = Array.from({ length: 50 }, (_, index) =>
      scene.room.wait([event(`e${index}`)], { waitMs: 5000 }),
    );
    await turn();
    expect(scene.looks).to.have.length(1);
    expect(scene.looks[0]).to.deep.equal([{ model: 'orders', bucketStartMs: 0 }]);
    gate.resolve();
    while (scene.looks.length < 3) await turn();
    for (const look of scene.looks.slice(1)) expect(look[0]?.withinMs).to.be.a('number');
    for (let index = 0; index < 50; index++) scene.handle(`e${index}`);
    expect(await Promise.all(waiting)).to.deep.equal(waiting.map(() => []));
    expect(scene.counts.at(-1)).to.equal(0);
    const asked = scene.looks.length;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(scene.looks).to.have.length(asked);
  });

  it('finds what a slow commit brings long after it began', async () => {
    const scene = createScene();
    const waiting = scene.room.wait([event('slow')], { waitMs: 5000 });
    while (scene.looks.length < 2) await turn();
    scene.handle('slow', 'orders', 0, -100_000);
    scene.pass(2000);
    expect(await waiting).to.deep.equal([]);
  });

  it('knows what it has seen without asking again', async () => {
    const scene = createScene();
    scene.handle('a');
    await scene.room.wait([event('a')], { waitMs: 1000 });
    const asked = scene.looks.length;
    expect(await scene.room.wait([event('a')], { waitMs: 0 })).to.deep.equal([]);
    expect(scene.looks).to.have.length(asked);
  });

  it('goes on looking when that fails, and says so', async () => {
    const scene = createScene();
    scene.break(new Error('away'));
    const waiting = scene.room.wait([event('a')], { waitMs: 5000 });
    while (scene.troubles.length < 2) await turn();
    scene.handle('a');
    scene.break(undefined);
    expect(await waiting).to.deep.equal([]);
  });

  it('lets go of who hangs up, of everybody when it closes, and takes no more than it can', async () => {
    const scene = createScene({ waitersMax: 2 });
    const hungUp = new AbortController();
    const first = scene.room.wait([event('a')], { waitMs: 5000, signal: hungUp.signal });
    const second = scene.room.wait([event('b')], { waitMs: 5000 });
    const third = await scene.room.wait([event('c')], { waitMs: 5000 }).catch((error: Error) => error);
    expect(third).to.be.instanceOf(TooManyWaiters);
    hungUp.abort();
    expect(await first).to.deep.equal([event('a')]);
    scene.room.close();
    expect(await second).to.deep.equal([event('b')]);
    expect(await scene.room.wait([event('d')], { waitMs: 5000 })).to.deep.equal([event('d')]);
  });
});
