import { expect } from 'chai';
import fc from 'fast-check';
import { type Refusal, refusalOf, refusalPattern, refusalText } from '../../../src/relay/refusal.ts';

const name = fc.stringMatching(/^[\w.-]{1,40}$/);
const refusal: fc.Arbitrary<Refusal> = fc.oneof(
  fc.record({
    kind: fc.constant('topic' as const),
    topic: name,
    refusal: fc.constantFrom('missing' as const, 'forbidden' as const, 'invalid' as const),
  }),
  fc.record({
    kind: fc.constant('schema' as const),
    eventType: name,
    subject: name,
    reasons: fc.string({ maxLength: 60 }),
  }),
);

describe('the text of a refusal', () => {
  it('tells what is refused to whoever reads it later', () => {
    fc.assert(
      fc.property(refusal, (given) => {
        expect(refusalOf(refusalText(given))).to.deep.equal(given);
        expect(refusalText(given)).to.match(new RegExp(refusalPattern, 's'));
      }),
    );
  });

  it('is not found in what another failure says', () => {
    for (const text of [
      'message too large: Topic x does not exist',
      'Topic x does not exist any more',
      'The registry refuses the schema of x: no subject is named',
      '',
    ]) {
      expect(refusalOf(text), text).to.equal(undefined);
      expect(text).not.to.match(new RegExp(refusalPattern, 's'));
    }
  });
});
