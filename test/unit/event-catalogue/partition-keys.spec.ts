import { expect } from 'chai';
import { eventCatalogue, eventNames } from '../../../src/event-catalogue/event-catalogue.ts';

describe('partition keys', () => {
  it('are made the same way for all events of an aggregate, which order in Kafka and in the relay rests on', () => {
    const byAggregate = Map.groupBy(eventNames, (name) => eventCatalogue[name].aggregateType);
    for (const [aggregateType, names] of byAggregate) {
      const ways = new Set<unknown>(names.map((name) => eventCatalogue[name].partitionKey));
      expect(ways.size, aggregateType).to.equal(1);
      expect(new Set(names.map((name) => eventCatalogue[name].topic)).size, aggregateType).to.equal(1);
    }
    expect(byAggregate.size).to.be.greaterThan(3);
  });
});
