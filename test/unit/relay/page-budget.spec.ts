import { expect } from 'chai';
import { createPageBudget, type PageRoom } from '../../../src/relay/page-budget.ts';

const mebibyte = 1024 * 1024;
/** What the largest page takes. */
const largest = 24 * mebibyte;
const longMs = 60_000;

describe('budget of pages', () => {
  const taken = async (reserved: Promise<PageRoom | undefined>): Promise<PageRoom> => {
    const room = await reserved;
    if (!room) throw new Error('There should be room');
    return room;
  };

  it('has room for as many of the largest pages as fit, and for more when they turn out smaller', async () => {
    const budget = createPageBudget({ bytesMax: 3 * largest });
    const rooms = [1, 2, 3].map(() => budget.reserveSpare());
    expect(rooms).to.not.include(undefined);
    expect(budget.reserveSpare()).to.equal(undefined);
    for (const room of rooms) room?.fit(mebibyte);
    const more = [1, 2, 3].map(() => budget.reserveSpare());
    expect(more.filter((room) => room !== undefined)).to.have.length(2);
  });

  it('serves those who wait in their order, before anybody reads ahead', async () => {
    const budget = createPageBudget({ bytesMax: largest });
    const order: string[] = [];
    const first = await taken(budget.reserve(longMs));
    const second = taken(budget.reserve(longMs)).then((room) => {
      order.push('second');
      return room;
    });
    const third = taken(budget.reserve(longMs)).then((room) => {
      order.push('third');
      return room;
    });
    first.free();
    first.free();
    const room = await second;
    expect(budget.reserveSpare()).to.equal(undefined);
    room.free();
    (await third).free();
    expect(order).to.deep.equal(['second', 'third']);
    expect(budget.reserveSpare()).to.not.equal(undefined);
  });

  it('tells who waits too long that there is none, and gives the room to the next', async () => {
    const budget = createPageBudget({ bytesMax: largest });
    const first = await taken(budget.reserve(longMs));
    const impatient = budget.reserve(5);
    const patient = budget.reserve(longMs);
    expect(await impatient).to.equal(undefined);
    first.free();
    (await taken(patient)).free();
  });

  it('has room for one page, however large that is', async () => {
    const budget = createPageBudget({ bytesMax: mebibyte });
    const first = await taken(budget.reserve(longMs));
    first.fit(100 * mebibyte);
    expect(budget.reserveSpare()).to.equal(undefined);
    first.free();
    expect(budget.reserveSpare()).to.not.equal(undefined);
  });
});
