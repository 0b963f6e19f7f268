import { expect } from 'chai';
import fc from 'fast-check';
import { parseSchema } from '../../../src/avro/parse-schema.ts';
import { changesBetween } from '../../../src/schema-evolution/compare-schemas.ts';
import type { Direction } from '../../../src/schema-evolution/finding.ts';
import { parseModel } from '../../../src/schema-evolution/schema-model.ts';

/** A type with a default that fits it. Named types are named after their field, so that versions of one meet. */
type TypeOf = (name: string) => { readonly type: unknown; readonly fits: unknown };

const simple = (type: unknown, fits: unknown): fc.Arbitrary<TypeOf> => fc.constant(() => ({ type, fits }));
const enums: fc.Arbitrary<TypeOf> = fc
  .tuple(fc.subarray(['A', 'B', 'C'], { minLength: 1 }), fc.boolean())
  .map(([symbols, hasDefault]) => (name) => ({
    type: { type: 'enum', name: `E${name}`, symbols, ...(hasDefault && { default: symbols[0] }) },
    fits: symbols[0],
  }));
const records: fc.Arbitrary<TypeOf> = fc.subarray(['x', 'y'], { minLength: 1 }).map((fields) => (name) => ({
  type: {
    type: 'record',
    name: `R${name}`,
    fields: fields.map((field) => ({ name: field, type: 'string' })),
  },
  fits: Object.fromEntries(fields.map((field) => [field, ''])),
}));

const types: fc.Arbitrary<TypeOf> = fc.oneof(
  simple('string', ''),
  simple('bytes', ''),
  simple('int', 0),
  simple('long', 0),
  simple('double', 0),
  simple('boolean', false),
  simple(['null', 'string'], null),
  simple(['null', 'long'], null),
  simple(['string', 'null'], ''),
  simple(['null', 'string', 'long'], null),
  simple({ type: 'array', items: 'string' }, []),
  simple({ type: 'array', items: 'long' }, []),
  simple({ type: 'map', values: 'long' }, {}),
  enums,
  records,
);

const field = (name: string) =>
  fc.record({ typeOf: types, hasDefault: fc.boolean() }).map(({ typeOf, hasDefault }) => {
    const { type, fits } = typeOf(name);
    return { name, type, ...(hasDefault && { default: fits }) };
  });

const schema: fc.Arbitrary<string> = fc
  .tuple(...['a', 'b', 'c'].map((name) => fc.option(field(name))))
  .map((fields) =>
    JSON.stringify({ type: 'record', name: 'Event', fields: fields.filter((found) => found !== null) }),
  );

const avscReads = (reader: string, writer: string): boolean => {
  try {
    parseSchema(reader).createResolver(parseSchema(writer));
    return true;
  } catch {
    return false;
  }
};

/** Where Avro would let the meaning of stored events change, and we do not. */
const stricter = ['field-removed', 'default-changed', 'enum-symbol-removed', 'type-changed', 'union-changed'];

describe('comparing two versions of a schema', () => {
  const brokenRules = (older: string, newer: string, direction: Direction) =>
    changesBetween(parseModel(older), parseModel(newer))
      .filter(({ breaks }) => breaks.includes(direction))
      .map(({ rule }) => rule);

  it('finds a reason for whatever avsc cannot resolve, and no others than the stricter ones', () => {
    fc.assert(
      fc.property(schema, schema, (older, newer) => {
        for (const direction of ['backward', 'forward'] as const) {
          const [reader, writer] = direction === 'backward' ? [newer, older] : [older, newer];
          const rules = brokenRules(older, newer, direction);
          if (!avscReads(reader, writer)) expect(rules, direction).not.to.deep.equal([]);
          else expect(stricter, direction).to.include.members(rules);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('finds nothing between a schema and itself', () => {
    fc.assert(
      fc.property(schema, (same) => {
        expect(changesBetween(parseModel(same), parseModel(same))).to.deep.equal([]);
      }),
    );
  });

  it('ends on a record that contains itself', () => {
    const tree = (type: string) =>
      parseModel(
        JSON.stringify({
          type: 'record',
          name: 'Tree',
          fields: [
            { name: 'leaf', type },
            { name: 'branches', type: { type: 'array', items: 'Tree' } },
          ],
        }),
      );
    expect(changesBetween(tree('string'), tree('long')).map(({ path }) => path)).to.deep.equal(['leaf']);
  });

  it('does not take text for bytes, which Avro would', () => {
    const of = (type: string) => JSON.stringify({ type: 'record', name: 'E', fields: [{ name: 'a', type }] });
    expect(avscReads(of('bytes'), of('string'))).to.equal(true);
    expect(brokenRules(of('string'), of('bytes'), 'backward')).to.deep.equal(['type-changed']);
  });
});
