import { expect } from 'chai';
import { createWakeSignal } from '../../../src/relay/wake-signal.ts';

const longMs = 60_000;

describe('wake signal', () => {
  it('ends a sleep', async () => {
    const wake = createWakeSignal();
    const sleeping = wake.sleep(longMs);
    wake.signal();
    await sleeping;
  });

  it('is remembered when it comes before the sleep', async () => {
    const wake = createWakeSignal();
    wake.signal();
    await wake.sleep(longMs);
  });

  it('counts for one sleep only', async () => {
    const wake = createWakeSignal();
    wake.signal();
    wake.signal();
    await wake.sleep(longMs);
    const slept = await Promise.race([
      wake.sleep(10).then(() => 'to the end'),
      Promise.resolve('not at all'),
    ]);
    expect(slept).to.equal('not at all');
    await wake.sleep(1);
  });

  it('is not needed: the time alone ends a sleep', async () => {
    await createWakeSignal().sleep(1);
  });
});
