import { expect } from 'chai';
import { isReplayable, letterIdentity, toDeadLetter } from '../../../src/dlq-admin/dead-letter.ts';
import type { StoredRecord } from '../../../src/kafka/topic-reader.ts';

const place = { topic: 'like-events.dlq', partition: 0 };

const complete = {
  '__streams.errors.exception': 'RangeError',
  '__streams.errors.message': 'Too many',
  '__streams.errors.topic': 'like-events',
  '__streams.errors.partition': '2',
  '__streams.errors.offset': '41',
  '__millrace.projection': 'product-statistic',
  '__millrace.projection-version': '3',
  '__millrace.kind': 'refused',
  '__millrace.failed-at': '2026-05-01T10:00:00.000Z',
};

const record = (headers: Readonly<Record<string, string>>, offset = 7): StoredRecord => ({
  offset,
  timestampMs: 5000,
  key: Buffer.from('mill'),
  value: null,
  headers: Object.entries(headers).map(([name, text]) => [name, Buffer.from(text)] as const),
});
const read = (headers: Readonly<Record<string, string>>, offset?: number) =>
  toDeadLetter(place, record(headers, offset));

describe('dead letter', () => {
  it('is what its headers say', () => {
    expect(read(complete)).to.deep.equal({
      place: { ...place, offset: 7 },
      projection: 'product-statistic',
      projectionVersion: 3,
      kind: 'refused',
      exception: 'RangeError',
      message: 'Too many',
      key: 'mill',
      original: { topic: 'like-events', partition: 2, offset: 41 },
      replays: 0,
      failedAt: new Date('2026-05-01T10:00:00.000Z'),
      valueBytes: null,
      valueAtOffset: null,
    });
  });

  it('is read as far as it goes when headers are missing or make no sense', () => {
    const junk = {
      ...complete,
      '__millrace.kind': 'odd',
      '__millrace.failed-at': 'x',
      '__streams.errors.offset': '-1',
    };
    const letter = read(junk);
    expect(letter).to.include({ kind: null, original: null });
    expect(letter.failedAt, 'when it was written').to.deep.equal(new Date(5000));
    expect(isReplayable(letter)).to.equal(false);
    expect(read({})).to.include({ projection: null, exception: 'unknown', message: '' });
    expect(read({ ...complete, '__streams.errors.message': 'x'.repeat(10_000) }).message).to.have.length(500);
  });

  it('knows where its record stood at first, and how often it was replayed', () => {
    const mark = (text: string) => ({
      ...complete,
      '__millrace.replay': text,
      '__millrace.first-offset': '9',
    });
    const again = read(mark('{"id":"r","projection":"product-statistic","attempt":4}'));
    expect(again.replays).to.equal(4);
    expect(again.original?.offset).to.equal(9);
    for (const text of ['', 'x', 'null', '{}', '{"attempt":"4"}', '{"attempt":-1}', '{"attempt":0.5}'])
      expect(read(mark(text)).replays, text).to.equal(0);
  });

  it('knows where its value is, when that was too large for it', () => {
    const large = read({
      ...complete,
      '__millrace.value-left-out': '2000000',
      '__millrace.first-offset': '9',
    });
    expect(large).to.include({ valueBytes: 2_000_000, valueAtOffset: 41 });
    expect(large.original?.offset).to.equal(9);
  });

  it('does not say where it came from when that is not the topic beside it', () => {
    expect(read({ ...complete, '__streams.errors.topic': 'order-events' }).original).to.equal(null);
  });

  it('is the same as another about the same attempt, wherever it lies', () => {
    const identity = (headers: Readonly<Record<string, string>>, offset?: number) =>
      letterIdentity(read(headers, offset));
    expect(identity(complete, 7)).to.equal(identity({ ...complete, '__millrace.failed-at': 'later' }, 8));
    const others = [
      { ...complete, '__millrace.projection': 'product-trend' },
      { ...complete, '__millrace.projection-version': '4' },
      { ...complete, '__streams.errors.offset': '42' },
      { ...complete, '__streams.errors.partition': '1' },
      { ...complete, '__millrace.replay': '{"attempt":1}' },
    ];
    for (const other of others) expect(identity(other)).not.to.equal(identity(complete));
    expect(identity({}, 7), 'letters from elsewhere are known by their place').not.to.equal(identity({}, 8));
  });
});
