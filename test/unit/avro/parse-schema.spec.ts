import avsc, { type Schema } from 'avsc';
import { expect } from 'chai';
import fc from 'fast-check';
import { largestLong, parseSchema, smallestLong } from '../../../src/avro/parse-schema.ts';

const schema = {
  type: 'record',
  name: 'Holder',
  fields: [
    { name: 'entries', type: { type: 'map', values: 'string' } },
    {
      name: 'items',
      type: {
        type: 'array',
        items: { type: 'record', name: 'Item', fields: [{ name: 'a', type: 'string' }] },
      },
    },
  ],
};
const type = parseSchema(JSON.stringify(schema));
/** avsc as it comes, which encodes what we must not decode. */
const careless = avsc.Type.forSchema(schema as Schema);
const long = avsc.Type.forSchema('long');

const holder = fc.record({
  entries: fc.dictionary(
    fc.string().filter((key) => key !== '__proto__'),
    fc.string(),
    { noNullPrototype: true },
  ),
  items: fc.array(fc.record({ a: fc.string() }, { noNullPrototype: true })),
});
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe('a parsed schema', () => {
  it('decodes arrays and maps as avsc does, through a resolver too', () => {
    const resolver = type.createResolver(careless);
    fc.assert(
      fc.property(holder, (value) => {
        const bytes = careless.toBuffer(value);
        expect(type.toBuffer(value)).to.deep.equal(bytes);
        expect(plain(type.fromBuffer(bytes))).to.deep.equal(plain(value));
        expect(plain(type.fromBuffer(bytes, resolver))).to.deep.equal(plain(value));
      }),
    );
  });

  it('decodes blocks that say their size, as other writers make them', () => {
    // Two blocks of the array: one item in a block of two bytes, then another.
    const bytes = Buffer.concat([
      Buffer.from([0]),
      ...[-1, 2].map((n) => long.toBuffer(n)),
      Buffer.from([2, 0x61]),
      long.toBuffer(1),
      Buffer.from([2, 0x62]),
      Buffer.from([0]),
    ]);
    expect(plain(type.fromBuffer(bytes))).to.deep.equal({ entries: {}, items: [{ a: 'a' }, { a: 'b' }] });
  });

  it('does not believe bytes that promise more than they hold', () => {
    const promise = long.toBuffer(20_000_000);
    const started = performance.now();
    expect(() => type.fromBuffer(promise)).to.throw('20000000 items cannot be in 0 bytes');
    expect(() => type.fromBuffer(Buffer.concat([Buffer.from([0]), promise]))).to.throw('20000000 items');
    const negative = Buffer.concat([Buffer.from([0]), long.toBuffer(-20_000_000), long.toBuffer(1)]);
    expect(() => type.fromBuffer(negative)).to.throw('20000000 items');
    expect(performance.now() - started).to.be.lessThan(100);
  });

  it('does not walk over what it skips either', () => {
    const narrow = parseSchema(JSON.stringify({ ...schema, fields: schema.fields.slice(1) }));
    const resolver = narrow.createResolver(type);
    expect(() => narrow.fromBuffer(long.toBuffer(20_000_000), resolver)).to.throw('20000000 items');
  });

  it('refuses the one key that would replace the prototype', () => {
    const evil = { entries: JSON.parse('{"a":"b","__proto__":"evil"}'), items: [] };
    const bytes = careless.toBuffer(evil);
    expect(() => type.fromBuffer(bytes)).to.throw('__proto__');
    expect(() => type.fromBuffer(bytes, type.createResolver(careless))).to.throw('__proto__');
  });

  it('writes whole numbers exactly, or not at all', () => {
    const exact = parseSchema('"long"');
    fc.assert(
      fc.property(fc.maxSafeInteger(), (value) => {
        if (value < smallestLong || value > largestLong) {
          expect(exact.isValid(value)).to.equal(false);
          expect(() => exact.toBuffer(value)).to.throw('invalid "long"');
        } else {
          expect(exact.fromBuffer(exact.toBuffer(value))).to.equal(value);
        }
      }),
    );
    expect(long.fromBuffer(long.toBuffer(smallestLong - 1)), 'avsc alone').to.equal(-smallestLong);
    expect(exact.isValid(1.5)).to.equal(false);
  });

  it('reads whole numbers exactly, or not at all, whoever wrote them', () => {
    const exact = parseSchema('"long"');
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
        const bytes = zigzag(value);
        if (value < smallestLong || value > largestLong) {
          expect(() => exact.fromBuffer(bytes)).to.throw('beyond what can be read exactly');
        } else {
          expect(exact.fromBuffer(bytes)).to.equal(Number(value));
        }
      }),
      {
        numRuns: 1000,
        examples: [[BigInt(smallestLong) - 1n], [BigInt(smallestLong)], [BigInt(largestLong)]],
      },
    );
  });
});

/** A long as the specification of Avro has it, which other languages write exactly. */
const zigzag = (value: bigint): Buffer => {
  const bytes: number[] = [];
  let left = value >= 0n ? value * 2n : -value * 2n - 1n;
  do {
    bytes.push(Number(left & 127n) | (left > 127n ? 128 : 0));
    left >>= 7n;
  } while (left > 0n);
  return Buffer.from(bytes);
};
