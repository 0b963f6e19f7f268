import { expect } from 'chai';
import type { Kafka } from 'kafkajs';
import errors from 'kafkajs/src/protocol/error.js';
import { RefusedTopics } from '../../../src/kafka/refused-topics.ts';

const unknownTopic = 3;
const networkException = 13;

describe('topics that take nothing', () => {
  let now: number;
  let topicErrors: Map<string, number>;
  let asked: string[];
  let topics: RefusedTopics;
  const among = async (...names: string[]) => Object.fromEntries(await topics.among(names));

  beforeEach(() => {
    now = 0;
    topicErrors = new Map();
    asked = [];
    const admin = () => ({
      connect: async () => undefined,
      disconnect: async () => undefined,
      fetchTopicMetadata: async ({ topics: [topic = ''] }: { topics: readonly string[] }) => {
        asked.push(topic);
        const code = topicErrors.get(topic);
        if (code !== undefined) throw errors.createErrorFromCode(code);
      },
    });
    topics = new RefusedTopics({ admin } as unknown as Kafka, () => now);
  });

  it('are found by asking for each alone', async () => {
    topicErrors.set('b', unknownTopic);
    expect([...(await topics.lookUp(['a', 'b', 'c']))]).to.deep.equal([['b', 'missing']]);
    expect(asked).to.deep.equal(['a', 'b', 'c']);
    expect(topics.isEmpty).to.equal(false);
  });

  it('are believed for a second, and then looked up once more', async () => {
    topicErrors.set('b', unknownTopic);
    await topics.lookUp(['b']);
    now = 999;
    expect(await among('a', 'b')).to.deep.equal({ b: 'missing' });
    expect(asked).to.deep.equal(['b']);
    now = 1000;
    expect(await among('a', 'b')).to.deep.equal({ b: 'missing' });
    expect(await among('a', 'b')).to.deep.equal({ b: 'missing' });
    expect(asked).to.deep.equal(['b', 'b']);
  });

  it('are no longer refused when they are there, or when it cannot be told', async () => {
    topics.note('b', 'forbidden');
    topics.note('c', 'missing');
    topicErrors.set('c', networkException);
    now = 1000;
    expect(await among('b', 'c')).to.deep.equal({});
    expect(topics.isEmpty).to.equal(true);
  });
});
