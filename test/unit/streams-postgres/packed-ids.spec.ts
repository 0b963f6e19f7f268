import { expect } from 'chai';
import { array, assert, property, uuid } from 'fast-check';
import { RefusedData } from '../../../src/streams/ports.ts';
import { packIds, unpackIds } from '../../../src/streams-postgres/packed-ids.ts';

describe('packed ids', () => {
  it('come out as they went in, 16 bytes each', () => {
    assert(
      property(array(array(uuid())), (lists) => {
        const packed = packIds(lists);
        expect(packed.length).to.equal(lists.flat().length * 16);
        expect(unpackIds(packed)).to.deep.equal(lists.flat());
      }),
    );
  });

  it('are the bytes that PostgreSQL has for a UUID, whatever the case of its letters', () => {
    const packed = packIds([['0123ABCD-4567-89ef-FEDC-ba9876543210']]);
    expect(packed.toString('hex')).to.equal('0123abcd456789effedcba9876543210');
    expect(unpackIds(packed)).to.deep.equal(['0123abcd-4567-89ef-fedc-ba9876543210']);
  });

  for (const wrong of [
    '',
    '0123abcd456789effedcba9876543210',
    '0123abcd-4567-89ef-fedc-ba987654321',
    '0123abcd-4567-89ef-fedc-ba98765432100',
    '0123abcd-4567-89ef-fedc-ba987654321g',
    'ä123abcd-4567-89ef-fedc-ba9876543210',
    '\u{10000}23abcd-4567-89ef-fedc-ba9876543210',
    '0123abcd_4567-89ef-fedc-ba9876543210',
    '0123abcd4-567-89ef-fedc-ba9876543210',
  ]) {
    it(`refuse ${wrong === '' ? 'an empty text' : wrong}`, () => {
      expect(() => packIds([[wrong]])).to.throw(RefusedData, 'is not a UUID');
    });
  }
});
