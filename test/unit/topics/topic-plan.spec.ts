import { expect } from 'chai';
import { planTopics } from '../../../src/topics/topic-plan.ts';

const settings = {
  prefix: '',
  partitions: 3,
  retentionMs: 604_800_000,
  dlqRetentionMs: 2_592_000_000,
  replicationFactorMax: 3,
};

describe('topic plan', () => {
  it('has every event topic and its dead letters', () => {
    expect(planTopics(settings, 1).map(({ topic }) => topic)).to.deep.equal([
      'order-events',
      'order-events.dlq',
      'payment-events',
      'payment-events.dlq',
      'like-events',
      'like-events.dlq',
      'product-view-events',
      'product-view-events.dlq',
      'stock-events',
      'stock-events.dlq',
      'rekeyed-events',
      'rekeyed-events.dlq',
    ]);
  });

  it('keeps events on three partitions for a week and dead letters on one for thirty days', () => {
    const [events, deadLetters] = planTopics(settings, 3);
    expect(events).to.include({ partitions: 3, retentionMs: 604_800_000 });
    expect(deadLetters).to.include({ partitions: 1, retentionMs: 2_592_000_000 });
  });

  it('copies to three brokers where there are three, and needs two of them', () => {
    expect(planTopics(settings, 3)[0]).to.include({ replicationFactor: 3, minInsyncReplicas: 2 });
    expect(planTopics(settings, 5)[0]).to.include({ replicationFactor: 3, minInsyncReplicas: 2 });
    expect(planTopics(settings, 1)[0]).to.include({ replicationFactor: 1, minInsyncReplicas: 1 });
  });

  it('puts the prefix before every name', () => {
    expect(planTopics({ ...settings, prefix: 'shop-' }, 1)[1]?.topic).to.equal('shop-order-events.dlq');
  });
});
