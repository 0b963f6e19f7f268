import { expect } from 'chai';
import kafkajs from 'kafkajs';
import errors from 'kafkajs/src/protocol/error.js';
import { isBrokerTrouble, PublishError, toPublishError } from '../../../src/kafka/publish-error.ts';

const { KafkaJSConnectionError, KafkaJSNumberOfRetriesExceeded, KafkaJSRequestTimeoutError } = kafkajs;

const answers: Readonly<Record<number, { code: string; retriable: boolean }>> = {
  3: { code: 'REFUSED', retriable: false },
  5: { code: 'BROKER_UNAVAILABLE', retriable: true },
  6: { code: 'BROKER_UNAVAILABLE', retriable: true },
  7: { code: 'BROKER_UNAVAILABLE', retriable: true },
  10: { code: 'RECORD_TOO_LARGE', retriable: false },
  19: { code: 'BROKER_UNAVAILABLE', retriable: true },
  20: { code: 'BROKER_UNAVAILABLE', retriable: true },
  29: { code: 'REFUSED', retriable: false },
  45: { code: 'UNKNOWN', retriable: true },
  56: { code: 'BROKER_UNAVAILABLE', retriable: true },
  87: { code: 'REFUSED', retriable: false },
};

describe('publish error', () => {
  for (const [answer, { code, retriable }] of Object.entries(answers)) {
    const cause = errors.createErrorFromCode(Number(answer));
    it(`is ${code} when a broker answers ${cause.type}`, () => {
      const error = toPublishError(cause, []);
      expect(error).to.include({ code, retriable, cause });
      expect(isBrokerTrouble(error)).to.equal(code === 'BROKER_UNAVAILABLE');
      expect(isBrokerTrouble(cause)).to.equal(code === 'BROKER_UNAVAILABLE');
    });
  }

  it('looks through what kafkajs wraps around the cause', () => {
    const wrapped = new KafkaJSNumberOfRetriesExceeded(new KafkaJSConnectionError('gone'), {
      retryCount: 3,
      retryTime: 10,
    });
    expect(isBrokerTrouble(wrapped)).to.equal(true);
    expect(isBrokerTrouble(new KafkaJSRequestTimeoutError('late'))).to.equal(true);
  });

  it('does not blame the broker for a fault in the program', () => {
    expect(toPublishError(new TypeError('x is not a function'), [])).to.include({
      code: 'UNKNOWN',
      retriable: false,
    });
  });

  it('names each failed partition once, and keeps the positions out of the log', () => {
    const refused = {
      topic: 't',
      partition: 1,
      reason: 'MESSAGE_TOO_LARGE',
      isRefused: true,
      positions: [7],
    };
    const notSent = { topic: 't', partition: 1, reason: 'not-sent', isRefused: false, positions: [8, 9] };
    const error = new PublishError('RECORD_TOO_LARGE', {
      retriable: false,
      unacknowledged: [refused, notSent],
    });
    expect(error.failed).to.deep.equal([{ topic: 't', partition: 1, reason: 'MESSAGE_TOO_LARGE' }]);
    expect(error.unacknowledged()).to.deep.equal([refused, notSent]);
    expect(JSON.stringify(error)).not.to.contain('positions');
  });
});
