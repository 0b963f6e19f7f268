import { expect } from 'chai';
import fc from 'fast-check';
import { DecodingError } from '../../../src/avro/decode-envelope.ts';
import type { Envelope } from '../../../src/avro/envelope.ts';
import {
  avroDir,
  type EnvelopeSchema,
  envelopeSchemaOf,
  pastEnvelopeSchemas,
  readerSchemaOf,
} from '../../../src/avro/envelope-schema.ts';
import { parseSchema } from '../../../src/avro/parse-schema.ts';
import { envelopeReaderOf, readEnvelope } from '../../../src/avro/read-envelope.ts';
import { UnknownEventType } from '../../../src/event-catalogue/upcasters.ts';
import { readReleases } from '../../../src/schema-evolution/released-history.ts';
import { parseRecord } from '../../../src/schema-evolution/schema-model.ts';
import { valuesOf } from './schema-values.ts';

const plain = (value: unknown): Envelope => JSON.parse(JSON.stringify(value)) as Envelope;
const schemaOf = (fullName: string): EnvelopeSchema => {
  const schema = readerSchemaOf(fullName);
  if (!schema) throw new Error(`Nothing reads ${fullName}`);
  return schema;
};

interface JsonSchema {
  fields: { name: string; type: unknown; default?: unknown; doc?: string }[];
}
const changed = (json: string, change: (schema: JsonSchema) => void): string => {
  const schema = JSON.parse(json) as JsonSchema;
  change(schema);
  return JSON.stringify(schema);
};
const dataOf = (schema: JsonSchema): JsonSchema =>
  schema.fields.find(({ name }) => name === 'data')?.type as JsonSchema;

const written = (json: string, eventType: string): fc.Arbitrary<Envelope> =>
  valuesOf(parseRecord(json)).map((envelope) => ({ ...(envelope as Envelope), type: eventType }));

describe('reading an envelope', () => {
  for (const { fullName, number, json } of readReleases(avroDir)) {
    it(`makes a valid event of today from anything written as ${fullName} ${number}`, () => {
      const writer = parseSchema(json);
      const { eventType, eventName } = schemaOf(fullName);
      const today = envelopeSchemaOf(eventName);
      fc.assert(
        fc.property(written(json, eventType), (original) => {
          const read = readEnvelope(writer, writer.toBuffer(original));
          expect(read.type).to.equal(today.eventType);
          expect(today.type.isValid(read)).to.equal(true);
          const { type: _, data: __, ...envelope } = plain(original);
          expect(plain(read)).to.deep.include(envelope);
        }),
        { numRuns: 50 },
      );
    });
  }

  const view = envelopeSchemaOf('ProductViewed');

  it('ignores what only the writer knows', () => {
    const wider = changed(view.json, (schema) => {
      schema.fields.push({ name: 'tenant', type: 'string' });
      const extra = { type: 'array', items: { type: 'map', values: 'long' } };
      dataOf(schema).fields.unshift({ name: 'extra', type: extra }, { name: 'more', type: ['null', 'long'] });
    });
    const writer = parseSchema(wider);
    fc.assert(
      fc.property(written(wider, view.eventType), (original) => {
        const { tenant: _, data, ...known } = plain(original) as Envelope & { tenant: string };
        const { extra: __, more: ___, ...knownData } = data;
        expect(plain(readEnvelope(writer, writer.toBuffer(original)))).to.deep.equal({
          ...known,
          data: knownData,
        });
      }),
    );
  });

  it('fills in the defaults of what the writer did not know', () => {
    const narrower = changed(view.json, (schema) => {
      schema.fields = schema.fields.filter(({ name }) => name !== 'traceparent');
      dataOf(schema).fields.pop();
    });
    const writer = parseSchema(narrower);
    fc.assert(
      fc.property(written(narrower, view.eventType), (original) => {
        const read = plain(readEnvelope(writer, writer.toBuffer(original)));
        expect(read.traceparent).to.equal(null);
        expect(read.data).to.deep.equal({ ...plain(original).data, userId: null });
      }),
    );
  });

  it('brings price and currency of a v1 product together, and keeps the rest', () => {
    const [past] = pastEnvelopeSchemas;
    if (!past) throw new Error('No type of the past');
    fc.assert(
      fc.property(written(past.json, past.eventType), (original) => {
        const { priceMinor, currency, ...rest } = plain(original).data;
        const { type, data } = plain(readEnvelope(past.type, past.type.toBuffer(original)));
        expect(type).to.equal('loopers.product.registered.v2');
        expect(data).to.deep.equal({ ...rest, price: { amountMinor: priceMinor, currency } });
      }),
    );
  });

  const sample = (type: string): Envelope => ({ ...(fc.sample(written(view.json, type), 1)[0] as Envelope) });

  it('makes one reader per writer', () => {
    const writer = parseSchema(view.json);
    expect(envelopeReaderOf(writer)).to.equal(envelopeReaderOf(writer));
  });

  it('is never half done, through a resolver either', () => {
    const wider = changed(view.json, (schema) => {
      dataOf(schema).fields.push({ name: 'more', type: 'string' });
    });
    const writer = parseSchema(wider);
    fc.assert(
      fc.property(written(wider, view.eventType), fc.nat(), (original, cut) => {
        const bytes = writer.toBuffer(original);
        expect(() => readEnvelope(writer, bytes.subarray(0, cut % bytes.length))).to.throw(DecodingError);
        expect(() => readEnvelope(writer, Buffer.concat([bytes, Buffer.from([0])]))).to.throw(
          DecodingError,
          '1 bytes',
        );
      }),
    );
  });

  it('refuses a record that says it is another event', () => {
    const bytes = view.type.toBuffer(sample('loopers.like.created.v1'));
    expect(() => readEnvelope(view.type, bytes)).to.throw(
      DecodingError,
      'says that it is loopers.like.created.v1',
    );
  });

  it('refuses a record that nobody knows', () => {
    const writer = parseSchema(view.json.replace('ProductViewedV1Envelope', 'ProductSeenV7Envelope'));
    const bytes = writer.toBuffer(sample(view.eventType));
    expect(() => readEnvelope(writer, bytes)).to.throw(
      UnknownEventType,
      'loopers.product.ProductSeenV7Envelope',
    );
  });

  it('refuses a schema that cannot be read as today is, and says why', () => {
    const other = changed(view.json, (schema) => {
      dataOf(schema).fields = [{ name: 'productId', type: 'long' }];
    });
    expect(() => envelopeReaderOf(parseSchema(other))).to.throw(
      DecodingError,
      /cannot be read as it is today/,
    );
  });
});
