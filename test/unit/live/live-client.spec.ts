import { expect } from 'chai';
import { type EndReason, type Listener, LiveClient } from '../../../src/live/live-client.ts';
import { eventBlock, type Portion } from '../../../src/live/live-message.ts';

const listener = (over: Partial<Listener> = {}): Listener => ({
  identity: 'shopper:ann',
  userId: 'ann',
  kinds: new Set(['statistics', 'orders']),
  lastEventId: undefined,
  ...over,
});
const open = (over: Partial<Listener> = {}, bufferBytesMax = 100) => {
  const ends: (EndReason | 'left')[] = [];
  const client = new LiveClient(listener(over), {
    bufferBytesMax,
    onEnd: (reason) => void ends.push(reason),
  });
  return { client, ends };
};
const textOf = async ({ stream }: LiveClient): Promise<string> => {
  let text = '';
  for await (const chunk of stream) text += String(chunk);
  return text;
};

describe('a client of live updates', () => {
  const statistics: Portion = { kind: 'statistics', messages: 1, forAll: 'S', byOwner: undefined };
  const orders: Portion = {
    kind: 'orders',
    messages: 2,
    forAll: 'AB',
    byOwner: new Map([
      ['ann', 'A'],
      ['bob', 'B'],
    ]),
  };

  it('hears of statistics and of its own orders; who may see everything, of everything', () => {
    const heard = (over: Partial<Listener>) => {
      const { client } = open(over);
      return [statistics, orders].map((portion) => client.ownPartOf(portion)).join('');
    };
    expect(heard({})).to.equal('SA');
    expect(heard({ userId: 'cleo' })).to.equal('S');
    expect(heard({ userId: undefined })).to.equal('SAB');
    expect(heard({ kinds: new Set(['orders']) })).to.equal('A');
    expect(heard({ kinds: new Set(['statistics']) })).to.equal('S');
  });

  it('that does not take in what it is sent is dropped, and told why', async () => {
    const { client, ends } = open();
    client.send('x'.repeat(60));
    client.send('y'.repeat(60));
    expect(ends).to.deep.equal([]);
    client.send('one too many');
    client.send('after the end');
    expect(ends).to.deep.equal(['too-slow']);
    expect(await textOf(client)).to.equal(
      `${'x'.repeat(60)}${'y'.repeat(60)}event: closed\ndata: {"reason":"too-slow"}\n\n`,
    );
  });

  it('that takes everything in may hear ever so much', async () => {
    const { client, ends } = open();
    const reading = textOf(client);
    for (let turn = 0; turn < 50; turn++) {
      client.send('z'.repeat(60));
      await new Promise((resolve) => setImmediate(resolve));
    }
    client.end('shutting-down');
    expect((await reading).length).to.be.greaterThan(3000);
    expect(ends).to.deep.equal(['shutting-down']);
  });

  it('that leaves is forgotten, once', async () => {
    const { client, ends } = open();
    client.stream.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    client.end('too-slow');
    client.send('nobody hears this');
    expect(ends).to.deep.equal(['left']);
  });
});

describe('an event of a stream', () => {
  it('is one block, whatever is in it', () => {
    const block = eventBlock('order', { name: 'a\nb\r\n\ndata: x\u2028' }, '1-2:3:');
    expect(block).to.match(/^id: 1-2:3:\nevent: order\ndata: [^\n\r]*\n\n$/);
    expect(JSON.parse(block.slice(block.indexOf('data: ') + 6))).to.have.property('name');
  });
});
