import { expect } from 'chai';
import { byReason } from '../../../src/relay/by-reason.ts';
import { rowsOf } from '../../support/memory-relay.ts';

describe('events that could not be published', () => {
  it('are told of once for each reason, with their number and the first of them', () => {
    const [a, b, c] = rowsOf(['a', 'b', 'c']);
    if (!a || !b || !c) throw new Error('There are three rows');
    const told = byReason([
      { row: a, error: 'no such topic' },
      { row: b, error: 'too large' },
      { row: c, error: 'no such topic' },
    ]);
    expect(told).to.deep.equal([
      { outboxId: a.id, eventType: a.eventType, reason: 'no such topic', events: 2 },
      { outboxId: b.id, eventType: b.eventType, reason: 'too large', events: 1 },
    ]);
    expect(byReason([])).to.deep.equal([]);
  });
});
