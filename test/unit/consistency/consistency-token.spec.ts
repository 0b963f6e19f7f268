import { expect } from 'chai';
import fc from 'fast-check';
import { topicNames } from '../../../src/event-catalogue/topic-name.ts';
import {
  consistencyTokenOf,
  readConsistencyToken,
  writeConsistencyToken,
} from '../../../src/journal/consistency-token.ts';
import { viewOf } from '../../support/journal.ts';

const awaitedEvent = fc.record({
  topic: fc.constantFrom(...topicNames),
  eventId: fc.uuid(),
  occurredAtMs: fc.nat({ max: 2 ** 47 }),
});

describe('a consistency token', () => {
  it('tells what was put into it', () => {
    fc.assert(
      fc.property(fc.array(awaitedEvent, { maxLength: 120 }), (events) => {
        expect(readConsistencyToken(writeConsistencyToken(events))).to.deep.equal(events);
      }),
    );
  });

  it('is no token when anything else is in its place', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const events = readConsistencyToken(text);
        if (events) expect(writeConsistencyToken(events)).to.equal(text);
      }),
    );
    const token = writeConsistencyToken([
      { topic: 'order-events', eventId: '01890a5d-ac96-774b-bcce-b302099a8057', occurredAtMs: 1 },
    ]);
    for (const damaged of [
      '',
      '2',
      token.slice(1),
      token.slice(0, -1),
      `${token}A`,
      `${token}=`,
      `2${token.slice(1)}`,
    ])
      expect(readConsistencyToken(damaged), damaged).to.equal(undefined);
  });

  it('names the last event of each key only, since the others came before it', () => {
    const [first, second, other] = [viewOf('a', 1), viewOf('a', 2), viewOf('b', 1)];
    const named = readConsistencyToken(consistencyTokenOf([first, second, other]));
    expect(named?.map(({ eventId }) => eventId)).to.have.members([second.eventId, other.eventId]);
  });

  it('of a command that changed nothing names nothing', () => {
    expect(readConsistencyToken(consistencyTokenOf([]))).to.deep.equal([]);
  });
});
