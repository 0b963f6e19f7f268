import { expect } from 'chai';
import fc from 'fast-check';
import { frame, frameLength, schemaIdOf } from '../../../src/avro/confluent-frame.ts';
import { DecodingError, decodeEnvelope } from '../../../src/avro/decode-envelope.ts';
import { EncodingError, encodeEnvelope } from '../../../src/avro/encode-envelope.ts';
import type { Envelope } from '../../../src/avro/envelope.ts';
import {
  envelopeSchemaOf,
  envelopeSchemas,
  parseSchema,
  subjectOf,
} from '../../../src/avro/envelope-schema.ts';
import { eventNames } from '../../../src/event-catalogue/event-catalogue.ts';

const schema = envelopeSchemaOf('ProductViewed');

const envelope: fc.Arbitrary<Envelope> = fc.record({
  id: fc.uuid({ version: 7 }),
  type: fc.constant('loopers.product.viewed.v1'),
  source: fc.string(),
  aggregateType: fc.constant('ProductView'),
  aggregateId: fc.string(),
  aggregateVersion: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  time: fc.integer({ min: 0, max: 8.64e15 }),
  correlationId: fc.string(),
  causationId: fc.string(),
  traceparent: fc.option(fc.string()),
  data: fc.record({ productId: fc.string(), userId: fc.option(fc.string()) }),
});

/** avsc gives records a class of their own; what counts is their content. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe('Avro envelope', () => {
  it('comes back as it was, for any content', () => {
    fc.assert(
      fc.property(envelope, (original) => {
        const decoded = decodeEnvelope(schema.type, encodeEnvelope(schema, original));
        expect(plain(decoded)).to.deep.equal(plain(original));
      }),
    );
  });

  it('is never half decoded: cut short or with bytes left over it is an error', () => {
    fc.assert(
      fc.property(envelope, fc.nat(), (original, cut) => {
        const bytes = encodeEnvelope(schema, original);
        const shortened = bytes.subarray(0, cut % bytes.length);
        expect(() => decodeEnvelope(schema.type, shortened)).to.throw(DecodingError);
        expect(() => decodeEnvelope(schema.type, Buffer.concat([bytes, Buffer.from([0])]))).to.throw(
          DecodingError,
          '1 bytes',
        );
      }),
    );
  });

  it('survives any bytes with a value or a DecodingError, nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        try {
          decodeEnvelope(schema.type, Buffer.from(bytes));
        } catch (error) {
          expect(error).to.be.instanceOf(DecodingError);
        }
      }),
    );
  });

  it('refuses an event that does not fit its schema, and says which', () => {
    const wrong = { ...fc.sample(envelope, 1)[0], data: { productId: 7 } } as unknown as Envelope;
    expect(() => encodeEnvelope(schema, wrong)).to.throw(
      EncodingError,
      'loopers.product.viewed.v1 does not fit',
    );
  });

  it('has a schema of its own for every event of the catalogue', () => {
    expect([...envelopeSchemas.keys()]).to.deep.equal(eventNames);
    const names = new Set([...envelopeSchemas.values()].map(({ fullName }) => fullName));
    expect(names.size).to.equal(eventNames.length);
  });

  it('is described completely by its JSON, which is what other tools get', () => {
    for (const { json, fingerprint } of envelopeSchemas.values()) {
      expect(parseSchema(json).fingerprint('sha256').toString('hex')).to.equal(fingerprint);
    }
  });

  it('is registered under topic and record name', () => {
    expect(subjectOf('product-view-events', schema.fullName)).to.equal(
      'product-view-events-loopers.product.ProductViewedV1Envelope',
    );
  });
});

describe('Confluent frame', () => {
  it('puts a zero byte and the schema id before the payload', () => {
    expect(frame(258, Buffer.from('ab')).toString('hex')).to.equal('00000001026162');
  });

  it('gives the schema id back', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 31 - 1 }), fc.uint8Array(), (id, payload) => {
        const framed = frame(id, Buffer.from(payload));
        expect(schemaIdOf(framed)).to.equal(id);
        expect(framed.subarray(frameLength)).to.deep.equal(Buffer.from(payload));
      }),
    );
  });

  it('is missed when it is not there', () => {
    expect(() => schemaIdOf(Buffer.from('{"json":true}'))).to.throw(DecodingError, 'does not start with');
    expect(() => schemaIdOf(Buffer.from([0, 0, 0]))).to.throw(DecodingError, '3 bytes');
  });
});
