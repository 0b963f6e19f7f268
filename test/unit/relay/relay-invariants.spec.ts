import { expect } from 'chai';
import { contentHash } from '../../../src/journal/content-hash.ts';
import { viewOf } from '../../support/journal.ts';
import { type JournalEvent, judge, type KafkaRecord } from '../../support/relay-invariants.ts';

/** The judge of the fault specs has to be able to say no. */
describe('the judge of the relay', () => {
  const topic = 'product-view-events';
  let rows = 0;
  const committed = (
    aggregateId: string,
    version: number,
    more: Partial<JournalEvent> = {},
  ): JournalEvent => {
    const { stream, version: aggregateVersion, ...event } = viewOf(aggregateId, version);
    const row = { ...event, ...stream, aggregateVersion, outboxId: ++rows };
    return { ...row, isHeld: false, isDropped: false, ...more };
  };
  const inKafka = (...events: readonly JournalEvent[]): readonly KafkaRecord[] =>
    events.map(({ partitionKey, payload }, offset) => ({
      topic,
      partition: 0,
      offset,
      key: partitionKey,
      value: Buffer.concat([Buffer.alloc(5), payload]),
    }));
  const verdict = (journal: readonly JournalEvent[], records: readonly KafkaRecord[]) =>
    judge(journal, records, (name) => name);

  const [a1, a2, a3, b1] = [committed('a', 1), committed('a', 2), committed('a', 3), committed('b', 1)];

  it('has nothing to say when all has arrived in order, also when some came twice', () => {
    expect(verdict([a1, b1, a2, a3], inKafka(a1, b1, a2, a1, a2, a3, b1))).to.deep.equal({
      missing: [],
      held: [],
      violations: [],
      duplicates: 3,
    });
  });

  it('misses what is neither in Kafka nor kept', () => {
    const held = { ...b1, isHeld: true };
    const missing = { missing: ['a@2'], held: ['b@1'], violations: [] };
    expect(verdict([a1, a2, held], inKafka(a1))).to.deep.include(missing);
  });

  it('sees an event that came before an earlier one, even when that came later', () => {
    expect(verdict([a1, a2, a3], inKafka(a2, a1, a3)).violations).to.deep.equal(['a@2 came before a@1']);
  });

  it('sees an event that overtook a held one', () => {
    const held = { ...a2, isHeld: true };
    expect(verdict([a1, held, a3], inKafka(a1, a3)).violations).to.deep.equal(['a@3 came before a@2']);
  });

  it('does not wait for what an operator dropped', () => {
    const dropped = { ...a2, isDropped: true };
    expect(verdict([a1, dropped, a3], inKafka(a1, a3))).to.deep.include({ missing: [], violations: [] });
  });

  it('knows what was never committed', () => {
    expect(verdict([a1], inKafka(a1, b1)).violations).to.deep.equal([
      'product-view-events/0/1 (key b) was never committed',
    ]);
  });

  it('knows what was sent although its payload is not what the command wrote', () => {
    const tampered = { ...a1, payload: Buffer.concat([a1.payload, Buffer.alloc(1)]) };
    expect(contentHash(tampered).equals(tampered.contentHash)).to.equal(false);
    expect(verdict([tampered], inKafka(tampered)).violations).to.have.length(1);
  });

  it('knows what is under the wrong key or in the wrong topic', () => {
    const [record] = inKafka(a1);
    if (!record) throw new Error('There is one');
    expect(verdict([a1], [{ ...record, key: 'b' }]).violations).to.have.length(1);
    expect(verdict([a1], [{ ...record, topic: 'order-events' }]).violations).to.have.length(1);
  });
});
