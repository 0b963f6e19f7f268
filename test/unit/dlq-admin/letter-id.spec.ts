import { expect } from 'chai';
import fc from 'fast-check';
import { letterId, parseLetterId, topicNameOf } from '../../../src/dlq-admin/letter-id.ts';

const topics = { names: ['like-events', 'order-events'], prefix: 'shop.' };
const place = { topic: 'shop.like-events.dlq', partition: 0, offset: 17 };

describe('id of a dead letter', () => {
  it('is short, and tells the partition only where it is not the first', () => {
    expect(letterId(topics, place)).to.equal('like-events@17');
    expect(letterId(topics, { ...place, partition: 3 })).to.equal('like-events/3@17');
  });

  it('is taken in the long form, too', () => {
    for (const text of [
      'like-events@17',
      'like-events.dlq@17',
      'like-events.dlq/0@17',
      'shop.like-events.dlq/0@17',
    ])
      expect(parseLetterId(topics, text), text).to.deep.equal(place);
  });

  it('names nothing when it is of another form or another topic', () => {
    for (const text of [
      '',
      '17',
      'like-events',
      'like-events@',
      'like-events@-1',
      'like-events@1e3',
      'pay@1',
      '@1',
    ])
      expect(parseLetterId(topics, text), text).to.equal(undefined);
  });

  it('can be read back, with any prefix', () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[a-zA-Z0-9._-]{0,20}$/),
        fc.nat(1000),
        fc.maxSafeInteger().map((offset) => Math.abs(offset) % 1e15),
        (prefix, partition, offset) => {
          const prefixed = { ...topics, prefix };
          const there = { topic: `${prefix}order-events.dlq`, partition, offset };
          expect(parseLetterId(prefixed, letterId(prefixed, there))).to.deep.equal(there);
        },
      ),
    );
  });

  it('tells a topic from one whose name only looks like it', () => {
    expect(topicNameOf(topics, 'shop.order-events')).to.equal('order-events');
    expect(topicNameOf(topics, 'other.order-events')).to.equal(undefined);
    expect(topicNameOf({ ...topics, prefix: '' }, 'order-events.dlq.dlq')).to.equal(undefined);
  });
});
