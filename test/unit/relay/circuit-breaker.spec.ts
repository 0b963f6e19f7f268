import { expect } from 'chai';
import fc from 'fast-check';
import { type BreakerChange, CircuitBreaker } from '../../../src/relay/circuit-breaker.ts';

const settings = { windowCalls: 10, callsMin: 5, failureRatePercent: 50, openMs: 30_000, trialCalls: 3 };

const createBreaker = () => {
  let now = 0;
  const changes: string[] = [];
  const breaker = new CircuitBreaker({
    settings,
    clock: () => now,
    onChange: ({ from, to }: BreakerChange) => void changes.push(`${from} → ${to}`),
  });
  const call = (success: boolean): boolean => {
    if (!breaker.permits()) return false;
    if (success) breaker.succeeded();
    else breaker.failed();
    return true;
  };
  const advance = (timeMs: number): void => {
    now += timeMs;
  };
  return { breaker, changes, call, advance };
};

describe('circuit breaker', () => {
  const opened = () => {
    const it = createBreaker();
    for (let turn = 0; turn < 5; turn++) it.call(false);
    return it;
  };

  it('stays closed while fewer than five calls are known', () => {
    const { breaker, call } = createBreaker();
    for (let turn = 0; turn < 4; turn++) call(false);
    expect(breaker.state).to.equal('closed');
    call(false);
    expect(breaker.state).to.equal('open');
  });

  it('opens when half of the last ten have failed, and not before', () => {
    const { breaker, call } = createBreaker();
    for (let turn = 0; turn < 10; turn++) call(true);
    for (let turn = 0; turn < 4; turn++) call(false);
    expect(breaker.state).to.equal('closed');
    call(false);
    expect(breaker.state).to.equal('open');
  });

  it('permits nothing for thirty seconds', () => {
    const { breaker, call, advance } = opened();
    expect(call(true)).to.equal(false);
    advance(29_999);
    expect(call(true)).to.equal(false);
    expect(breaker.waitMs).to.equal(1);
    advance(1);
    expect(call(true)).to.equal(true);
  });

  it('closes after three good trials', () => {
    const { breaker, call, advance, changes } = opened();
    advance(30_000);
    for (let turn = 0; turn < 3; turn++) call(true);
    expect(breaker.state).to.equal('closed');
    expect(changes).to.deep.equal(['closed → open', 'open → half-open', 'half-open → closed']);
  });

  it('opens again at one bad trial, for another thirty seconds', () => {
    const { breaker, call, advance } = opened();
    advance(30_000);
    call(true);
    call(false);
    expect(breaker.state).to.equal('open');
    expect(breaker.waitMs).to.equal(30_000);
  });

  it('lets no more than three trials out at once', () => {
    const { breaker, advance } = opened();
    advance(30_000);
    expect([1, 2, 3, 4].map(() => breaker.permits())).to.deep.equal([true, true, true, false]);
    for (let turn = 0; turn < 3; turn++) breaker.succeeded();
    expect(breaker.permits()).to.equal(true);
  });

  it('has others wait while all trials are out, and no longer when one of them has told', () => {
    const { breaker, advance } = opened();
    advance(30_000);
    expect(breaker.waitMs).to.equal(0);
    for (let trial = 0; trial < 3; trial++) {
      expect(breaker.waitMs).to.equal(0);
      expect(breaker.permits()).to.equal(true);
    }
    expect(breaker.waitMs).to.be.within(10, 1000);
    advance(20_000);
    expect(breaker.waitMs).to.be.within(10, 1000);
    breaker.failed();
    expect(breaker.waitMs).to.equal(30_000);
    for (let late = 0; late < 2; late++) breaker.failed();
    advance(30_000);
    for (let trial = 0; trial < 3; trial++) breaker.permits();
    for (let trial = 0; trial < 3; trial++) breaker.succeeded();
    expect([breaker.state, breaker.waitMs]).to.deep.equal(['closed', 0]);
  });

  it('knows for how long nothing has succeeded', () => {
    const { breaker, call, advance } = createBreaker();
    expect(breaker.failingMs).to.equal(0);
    call(true);
    advance(5000);
    expect(breaker.failingMs).to.equal(0);
    for (let turn = 0; turn < 5; turn++) call(false);
    advance(30_000);
    expect(breaker.failingMs).to.equal(30_000);
    call(false);
    advance(30_000);
    expect(breaker.failingMs).to.equal(60_000);
    call(true);
    expect(breaker.failingMs).to.equal(0);
  });

  it('is always usable again in the end, and never permits while open', () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('call' as const), success: fc.boolean() }),
      fc.record({ kind: fc.constant('wait' as const), timeMs: fc.integer({ min: 0, max: 40_000 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const { breaker, call, advance } = createBreaker();
        for (const next of steps) {
          if (next.kind === 'wait') advance(next.timeMs);
          else {
            const mustRefuse = breaker.state === 'open' && breaker.waitMs > 0;
            expect(call(next.success) && mustRefuse).to.equal(false);
          }
        }
        advance(30_000);
        for (let turn = 0; turn < 3; turn++) call(true);
        expect(breaker.state).to.equal('closed');
      }),
    );
  });
});
