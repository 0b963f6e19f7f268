import { expect } from 'chai';
import { messageShape } from '../../../src/dlq-admin/message-shape.ts';

describe('shape of a message', () => {
  const shapes = {
    'The registry has no schema 4711': 'The registry has no schema <n>',
    'Order 0198c0de-0000-7000-8000-000000000007 is paid': 'Order <id> is paid',
    'Version 3, not 5, at 2026-05-01T10:00:00.000Z': 'Version <n>, not <n>, at <time>',
    'Key "ann" is not "bob"': 'Key <text> is not <text>',
    "unknown user 'ann'": 'unknown user <text>',
    "It's Ann's order": "It's Ann's order",
    'invalid 00ff00ff00ff at 12.5 of -3': 'invalid <hex> at <n> of <n>',
    'The record does not start with the 5-byte schema header (3 bytes, first 255)':
      'The record does not start with the <n>-byte schema header (<n> bytes, first <n>)',
    'loopers.order.created.v1 does not fit': 'loopers.order.created.v1 does not fit',
    ' two\n  lines ': 'two lines',
    '': '',
  };
  for (const [message, shape] of Object.entries(shapes)) {
    it(`of ${JSON.stringify(message)} is ${JSON.stringify(shape)}`, () => {
      expect(messageShape(message)).to.equal(shape);
    });
  }

  it('is short', () => {
    expect(messageShape('word '.repeat(1000))).to.have.length(200);
  });
});
