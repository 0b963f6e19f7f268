import { expect } from 'chai';
import { loadConfig } from '../../../src/config/load-config.ts';
import { OperatorError } from '../../../src/operator-error.ts';
import { requireHandledRetention } from '../../../src/streams-postgres/upkeep/require-handled-retention.ts';

const dayMs = 86_400_000;
const check = (handled: number, topic: number, dlq: number) => () =>
  requireHandledRetention({ handledMs: handled * dayMs, topicMs: topic * dayMs, dlqMs: dlq * dayMs });

describe('retention of what was handled', () => {
  it('is a day longer than the longest way to come back', () => {
    expect(check(31, 7, 30)).not.to.throw();
    expect(check(31, 30, 1)).not.to.throw();
    expect(check(30.9, 7, 30)).to.throw(OperatorError);
    expect(check(30.9, 30, 7)).to.throw(OperatorError);
  });

  it('tells the numbers and what to do', () => {
    try {
      check(30, 7, 30)();
      expect.fail('it should have thrown');
    } catch (error) {
      expect((error as OperatorError).line).to.match(
        /STREAMS_HANDLED_RETENTION_MS is 2592000000 \(30 days\).*TOPIC_RETENTION_MS is 604800000, DLQ_RETENTION_MS is 2592000000.*Set STREAMS_HANDLED_RETENTION_MS to 2678400000 or more/,
      );
      expect((error as OperatorError).exitCode).to.equal(2);
    }
  });

  it('is long enough when nothing is set', () => {
    const { streams, topics } = loadConfig({ env: {}, envFile: '/dev/null' }).config;
    expect(streams.handledRetentionMs).to.equal(37 * dayMs);
    expect(() =>
      requireHandledRetention({
        handledMs: streams.handledRetentionMs,
        topicMs: topics.retentionMs,
        dlqMs: topics.dlqRetentionMs,
      }),
    ).not.to.throw();
  });
});
