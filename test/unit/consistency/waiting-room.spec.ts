import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import {
  type LookQuestion,
  TooManyWaiters,
  WaitingRoom,
  type WaitingRoomSettings,
} from '../../../src/consistency/waiting-room.ts';
import { eventually } from '../../support/eventually.ts';

const event = (eventId: string, model = 'orders', bucketStartMs = 0) => ({ eventId, model, bucketStartMs });

/** Models whose events a test puts in; each look is remembered. */
const createScene = (settings: Partial<WaitingRoomSettings> = {}) => {
  let handled: { eventId: string; model: string; bucketStartMs: number; atMs: number }[] = [];
  const looks: LookQuestion[] = [];
  const held = new Set<string>();
  const missed = new Set<string>();
  let build = 1;
  let nowMs = 1000;
  let trouble: Error | undefined;
  let isHeldUp = Promise.resolve();
  const troubles: Error[] = [];
  const counts: number[] = [];
  const room = new WaitingRoom({
    look: async (question) => {
      looks.push(question);
      await isHeldUp;
      if (trouble) throw trouble;
      return {
        builds: new Map(question.models.map((model) => [model, build])),
        found: question.stretches.map(({ model, bucketStartMs, withinMs = Number.POSITIVE_INFINITY }) => {
          const ids = handled
            .filter(
              (one) =>
                one.model === model && one.bucketStartMs === bucketStartMs && one.atMs >= nowMs - withinMs,
            )
            .map(({ eventId }) => eventId);
          return { handled: ids, missed: ids.filter((id) => missed.has(id)) };
        }),
        held: question.awaited.filter(({ eventId }) => held.has(eventId)),
      };
    },
    clock: () => nowMs,
    settings: { lookIntervalMs: 1, waitersMax: 100, ...settings },
    onTrouble: (error) => troubles.push(error),
    observer: { waitersChanged: (count) => counts.push(count) },
  });
  return {
    room,
    looks,
    counts,
    troubles,
    held,
    missed,
    handle: (eventId: string, model = 'orders', bucketStartMs = 0, atMs = nowMs) =>
      handled.push({ eventId, model, bucketStartMs, atMs }),
    /** Another build becomes live, which has handled these. */
    swap: (eventIds: readonly string[]) => {
      build++;
      handled = eventIds.map((eventId) => ({ eventId, model: 'orders', bucketStartMs: 0, atMs: nowMs }));
    },
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
    expect(scene.looks[0]?.stretches).to.deep.equal([{ model: 'orders', bucketStartMs: 0 }]);
    gate.resolve();
    while (scene.looks.length < 3) await turn();
    expect(scene.looks[1]?.awaited).to.have.length(50);
    for (const look of scene.looks.slice(1)) expect(look.stretches[0]?.withinMs).to.be.a('number');
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

  it('does not read again what it has seen, and asks only whether the model is still the same', async () => {
    const scene = createScene();
    scene.handle('a');
    await scene.room.wait([event('a')], { waitMs: 1000 });
    const asked = scene.looks.length;
    expect(await scene.room.wait([event('a')], { waitMs: 0 })).to.deep.equal([]);
    expect(scene.looks.slice(asked)).to.deep.equal([
      { models: ['orders'], stretches: [], awaited: [{ model: 'orders', eventId: 'a' }] },
    ]);
  });

  it('does not take an event for in that a step still holds back', async () => {
    const scene = createScene();
    scene.handle('second');
    scene.held.add('second');
    expect(await scene.room.wait([event('second')], { waitMs: 10 })).to.deep.equal([event('second')]);
    const waiting = scene.room.wait([event('second')], { waitMs: 5000 });
    scene.held.delete('second');
    expect(await waiting).to.deep.equal([]);
  });

  it('tells at once that an event missed its window, and does not let anybody wait for it', async () => {
    const scene = createScene();
    scene.handle('late');
    scene.missed.add('late');
    expect(await scene.room.wait([event('late'), event('b')], { waitMs: 60_000 })).to.deep.equal([
      { ...event('late'), missedWindow: true },
      event('b'),
    ]);
  });

  it('forgets what the build before had as soon as another one is live', async () => {
    const scene = createScene();
    scene.handle('a');
    scene.handle('b');
    expect(await scene.room.wait([event('a'), event('b')], { waitMs: 1000 })).to.deep.equal([]);
    scene.swap(['a']);
    scene.pass(5);
    expect(await scene.room.wait([event('a'), event('b')], { waitMs: 30 })).to.deep.equal([event('b')]);
    scene.handle('b');
    expect(await scene.room.wait([event('a'), event('b')], { waitMs: 1000 })).to.deep.equal([]);
  });

  it('reads all of another build that becomes live while somebody waits', async () => {
    const scene = createScene();
    const waiting = scene.room.wait([event('a')], { waitMs: 5000 });
    while (scene.looks.length < 2) await turn();
    scene.swap([]);
    scene.handle('a', 'orders', 0, -100_000);
    expect(await waiting).to.deep.equal([]);
  });

  it('keeps little of what it has seen, and nothing once nobody has come for a while', async () => {
    const scene = createScene({ keepMs: 20, idsMax: 10 });
    for (let stretch = 0; stretch < 20; stretch++) {
      for (let index = 0; index < 5; index++) scene.handle(`${stretch}-${index}`, 'orders', stretch);
      scene.pass(1);
      await scene.room.wait([event(`${stretch}-0`, 'orders', stretch)], { waitMs: 1000 });
      await eventually(() => expect(scene.room.idsKept).to.be.at.most(15));
    }
    await eventually(() => expect(scene.room.idsKept).to.equal(0));
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
