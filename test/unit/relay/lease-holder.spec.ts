import { expect } from 'chai';
import { createLeaseHolder, type LeaseHolder } from '../../../src/relay/lease-holder.ts';
import { createRelayControl } from '../../../src/relay/relay-control.ts';
import { createHandClock } from '../../support/hand-clock.ts';
import { createMemoryLeases } from '../../support/memory-leases.ts';
import { recordingLog } from '../../support/silent-log.ts';

const holdMs = 30_000;
const keepMs = 60_000;
const name = 'job';

describe('lease holder', () => {
  const scene = () => {
    const clock = createHandClock();
    const leases = createMemoryLeases(clock.now);
    const { log, lines } = recordingLog();
    const events: string[] = [];
    const control = createRelayControl(log);
    const holderNamed = (holder: string): LeaseHolder =>
      createLeaseHolder({
        database: leases.database,
        request: { name, holder, holdMs },
        keepMs,
        observer: undefined,
        control: holder === 'a' ? control : createRelayControl(log),
        clock,
        log,
        onTaken: async ({ token }) => void events.push(`${holder} has ${token}`),
        onLost: () => void events.push(`${holder} lost it`),
      });
    const asked = (): number => leases.statements.filter((one) => one === 'acquire-lease').length;
    return { clock, leases, lines, events, control, asked, a: holderNamed('a'), b: holderNamed('b') };
  };

  it('keeps its lease while a job takes longer than that', async () => {
    const { a, b, clock, events } = scene();
    await a.hold();
    await clock.advance(55_000);
    expect(await b.hold()).to.equal(undefined);
    expect((await a.hold())?.token).to.equal(1);
    expect(events).to.deep.equal(['a has 1']);
  });

  it('lets another one have it when a job never ends', async () => {
    const { a, b, clock, leases, lines, events } = scene();
    await a.hold();
    await clock.advance(keepMs + 2 * holdMs);
    expect(clock.waiting).to.equal(0);
    expect(lines.map(({ msg }) => msg).join()).to.match(/takes longer than its lease is kept/);
    expect((await b.hold())?.lapsedFrom).to.equal('a');
    expect(await a.hold()).to.equal(undefined);
    expect(leases.holderOf(name)).to.equal('b');
    expect(events).to.deep.equal(['a has 1', 'b has 2', 'a lost it']);
  });

  it('asks three times in the time of a lease, however often it is used', async () => {
    const { a, clock, asked } = scene();
    for (let elapsedMs = 0; elapsedMs < 10 * holdMs; elapsedMs += 100) {
      await a.hold();
      await clock.advance(100);
    }
    expect(asked()).to.be.within(30, 32);
  });

  it('asks before the next job when the timer was refused, and says why it has none', async () => {
    const { a, clock, leases, lines, events } = scene();
    await a.hold();
    leases.setPaused(true);
    await clock.advance(holdMs / 3);
    expect(events).to.deep.equal(['a has 1']);
    expect(await a.hold()).to.equal(undefined);
    expect(leases.holderOf(name)).to.equal(undefined);
    expect(clock.waiting).to.equal(0);
    expect(events).to.deep.equal(['a has 1', 'a lost it']);
    expect(lines.map(({ msg }) => msg).join()).to.match(/paused/);
  });

  it('begins anew when its token has changed although it has the lease all the time', async () => {
    const { a, clock, leases, events } = scene();
    await a.hold();
    leases.fence(name);
    await clock.advance(holdMs / 3);
    expect((await a.hold())?.token).to.equal(2);
    expect(events).to.deep.equal(['a has 1', 'a has 2']);
  });

  it('renews when the database is back in time, and tells whoever asks when it is not', async () => {
    const { a, b, clock, leases } = scene();
    await a.hold();
    leases.setBroken(true);
    await clock.advance(holdMs / 3);
    expect((await a.hold())?.token).to.equal(1);
    await clock.advance(holdMs / 3);
    const failure = await a.hold().catch((error: Error) => error.message);
    expect(failure).to.match(/does not answer/);
    leases.setBroken(false);
    await clock.advance(holdMs);
    expect(await b.hold()).to.equal(undefined);
    expect((await a.hold())?.token).to.equal(1);
  });

  it('gives it back at once when its process sits out, and asks for none until that is over', async () => {
    const { a, b, clock, control, events } = scene();
    await a.hold();
    control.sitOut(true);
    expect(await a.hold()).to.equal(undefined);
    expect((await b.hold())?.lapsedFrom).to.equal(null);
    await b.release();
    expect(await a.hold()).to.equal(undefined);
    control.sitOut(false);
    expect((await a.hold())?.token).to.equal(3);
    await a.release();
    expect(clock.waiting).to.equal(0);
    expect(events).to.deep.equal(['a has 1', 'a lost it', 'b has 2', 'a has 3']);
  });
});
