import { expect } from 'chai';
import fc from 'fast-check';
import { BinaryRowCollector, type BinaryRows } from '../../../src/postgres/binary-rows.ts';

const message = (kind: string, body: Buffer): Buffer => {
  const head = Buffer.alloc(5);
  head.write(kind, 'latin1');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
};

/** A row of one column, as the server writes it. */
const row = (value: Buffer): Buffer => {
  const head = Buffer.alloc(6);
  head.writeInt16BE(1);
  head.writeInt32BE(value.length, 2);
  return message('D', Buffer.concat([head, value]));
};

const valuesOf = ({ bytes, starts }: BinaryRows): readonly string[] =>
  starts.map((at) => bytes.toString('hex', at + 4, at + 4 + bytes.readInt32BE(at)));

const collect = (chunks: readonly Buffer[], bytesMax = 1_000_000) => {
  const passedOn: Buffer[] = [];
  const collector = new BinaryRowCollector({
    bytesExpected: 0,
    bytesMax,
    passOn: (bytes) => passedOn.push(bytes),
  });
  for (const chunk of chunks) collector.take(chunk);
  return { collector, passedOn: Buffer.concat(passedOn) };
};

/** The same bytes in pieces, as a network may deliver them. */
const inPieces = (bytes: Buffer, cuts: readonly number[]): readonly Buffer[] => {
  const places = cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b);
  return [0, ...places].map((from, index) => bytes.subarray(from, places[index] ?? bytes.length));
};

const value = fc.uint8Array({ maxLength: 50 }).map((array) => Buffer.from(array));
const other = fc
  .tuple(fc.constantFrom('1', '2', 'T', 'N', 'S', 'C', 'Z'), value)
  .map(([kind, body]) => message(kind, body));
const conversation = fc.array(
  fc.oneof(
    value.map((bytes) => ({ value: bytes, bytes: row(bytes) })),
    other.map((bytes) => ({ value: undefined, bytes })),
  ),
  { maxLength: 40 },
);

describe('rows in binary', () => {
  it('are found in whatever pieces they arrive, and everything else is passed on in order', () => {
    fc.assert(
      fc.property(conversation, fc.array(fc.nat(), { maxLength: 20 }), (messages, cuts) => {
        const { collector, passedOn } = collect(
          inPieces(Buffer.concat(messages.map(({ bytes }) => bytes)), cuts),
        );
        const values = messages.flatMap((each) => each.value?.toString('hex') ?? []);
        const others = messages.filter((each) => each.value === undefined).map(({ bytes }) => bytes);
        expect(valuesOf(collector.rows)).to.deep.equal(values);
        expect(collector.rows.isCut).to.equal(false);
        expect(passedOn.equals(Buffer.concat(others))).to.equal(true);
        expect(collector.rest).to.have.length(0);
      }),
    );
  });

  it('are cut where they would take too much, and what is cut is not kept in memory', () => {
    fc.assert(
      fc.property(
        conversation,
        fc.array(fc.nat(), { maxLength: 20 }),
        fc.integer({ min: 1, max: 600 }),
        (messages, cuts, bytesMax) => {
          const pieces = inPieces(Buffer.concat(messages.map(({ bytes }) => bytes)), cuts);
          const { collector, passedOn } = collect(pieces, bytesMax);
          const values = messages.flatMap((each) => each.value?.toString('hex') ?? []);
          const kept = valuesOf(collector.rows);
          expect(kept).to.deep.equal(values.slice(0, kept.length));
          expect(collector.rows.isCut).to.equal(kept.length < values.length);
          if (values.length > 0) expect(kept.length).to.be.greaterThan(0);
          if (kept.length > 1)
            expect(collector.rows.starts.at(-1) ?? 0, 'start of the last').to.be.at.most(bytesMax);
          const others = messages.filter((each) => each.value === undefined).map(({ bytes }) => bytes);
          expect(passedOn.equals(Buffer.concat(others))).to.equal(true);
        },
      ),
    );
  });

  it('tell what has come in vain, as soon as it comes, and never of the first row', () => {
    const [large, small] = [row(Buffer.alloc(200)), row(Buffer.alloc(20))];
    const { collector } = collect([large.subarray(0, 150)], 100);
    expect(collector.wastedBytes, 'a first row is taken whatever its size').to.equal(0);
    collector.take(large.subarray(150));
    expect([collector.wastedBytes, collector.received.rows]).to.deep.equal([0, 1]);
    collector.take(small.subarray(0, 10));
    expect(collector.wastedBytes, 'half a row').to.equal(10);
    collector.take(Buffer.concat([small.subarray(10), small]));
    expect(collector.wastedBytes).to.equal(2 * small.length);
    expect(collector.received).to.deep.equal({ rows: 3, bytes: large.length + 2 * small.length });
    expect(collector.rows.starts).to.have.length(1);
  });

  it('tell what has come of a message that is not complete', () => {
    const ready = message('Z', Buffer.from('I'));
    const { collector, passedOn } = collect([
      Buffer.concat([message('E', Buffer.from('no')), ready.subarray(0, 3)]),
    ]);
    expect(passedOn.equals(message('E', Buffer.from('no')))).to.equal(true);
    expect(collector.rest.equals(ready.subarray(0, 3))).to.equal(true);
  });
});
