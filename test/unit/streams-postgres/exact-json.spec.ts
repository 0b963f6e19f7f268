import { expect } from 'chai';
import { assert, jsonValue, property } from 'fast-check';
import { parseExactJson, toExactJson } from '../../../src/streams-postgres/exact-json.ts';

describe('exact JSON', () => {
  const exact = {
    limits: [Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER],
    small: [0.1234567890123456, 1e-20, -0.5],
    'digits 9007199254740993 in "quotes" \\': '12345678901234567890 \\" 9007199254740993',
    exponent: '1e+30',
  };

  it('is what JSON says, where nothing is rounded', () => {
    expect(parseExactJson(toExactJson(exact))).to.deep.equal(exact);
    const isTame = (value: unknown): boolean => !/\d{16}|\de\+/.test(JSON.stringify(value));
    assert(
      property(jsonValue(), (value) => {
        if (isTame(value)) expect(toExactJson(value)).to.equal(JSON.stringify(value));
      }),
    );
  });

  for (const json of [
    '9007199254740993',
    '{"a":[-9007199254740992]}',
    '["\\\\",12345678901234567890]',
    '1e+21',
  ]) {
    it(`refuses to read ${json}`, () => {
      expect(() => parseExactJson(json)).to.throw(RangeError, 'does not fit into a safe integer');
    });
  }

  for (const value of [2 ** 53, { deep: [{ er: -(2 ** 60) }] }, 1e21]) {
    it(`refuses to write ${JSON.stringify(value)}`, () => {
      expect(() => toExactJson(value)).to.throw(RangeError, 'does not fit into a safe integer');
    });
  }

  it('refuses what has no JSON', () => {
    expect(() => toExactJson(undefined)).to.throw(TypeError);
    expect(() => toExactJson({ sum: 1n })).to.throw(TypeError);
  });
});
