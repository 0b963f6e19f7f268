import { expect } from 'chai';
import { avroDir } from '../../../src/avro/envelope-schema.ts';
import { checkSchemas } from '../../../src/schema-evolution/check-schemas.ts';
import { describeReport } from '../../../src/schema-evolution/describe-findings.ts';
import { brief, fieldOf, type PlantedFolder, plantedFolder } from './planted.ts';

const orderPaid = 'order-paid.v1.avsc';
const emptyRecord = {
  type: 'record',
  namespace: 'loopers.order',
  name: 'Nothing',
  doc: 'Nothing at all.',
  fields: [],
};

const fieldA = { name: 'a', doc: 'A', type: 'string' };

interface Plant {
  readonly title: string;
  readonly plant: (folder: PlantedFolder) => void;
  /** Everything that is found, as schema, path and rule. */
  readonly found: readonly string[];
  /** What a person must be able to read. */
  readonly says: RegExp;
}

/** A nullable field at the end of the event: what may be added any time. */
const optional = (type: unknown) => ({
  name: 'note',
  doc: 'What somebody wrote',
  type: ['null', type],
  default: null,
});
const addField = (
  folder: PlantedFolder,
  field: { name: string; doc?: string; type: unknown; default?: unknown },
) => folder.edit('order-paid.v1.avsc', ({ fields }) => void fields.push(field));

const plants: readonly Plant[] = [
  {
    title: 'a removed field',
    plant: (folder) =>
      folder.edit(orderPaid, (schema) => {
        schema.fields = schema.fields.filter(({ name }) => name !== 'paymentId');
      }),
    found: ['loopers.order.OrderPaidV1Envelope data.paymentId field-removed'],
    says: /earlier versions cannot read an event without it\n {2}Instead: keep it, or replace the event/,
  },
  {
    title: 'a changed type',
    plant: (folder) =>
      folder.edit(orderPaid, (schema) => {
        fieldOf(schema, 'userId').type = 'long';
      }),
    found: ['loopers.order.OrderPaidV1Envelope data.userId type-changed'],
    says: /data\.userId {2}type-changed {2}\(against released 1, both ways\)\n {2}string became long/,
  },
  {
    title: 'a narrowed number deep inside',
    plant: (folder) =>
      folder.edit(orderPaid, (schema) => {
        const items = fieldOf(schema, 'items').type as { items: { fields: [] } };
        fieldOf(items.items, 'quantity').type = 'int';
      }),
    found: [
      'loopers.order.OrderItemV1 quantity defined-differently',
      'loopers.order.OrderPaidV1Envelope data.items[].quantity type-changed',
    ],
    says: /order-paid\.v1\.avsc and order-created\.v1\.avsc do not agree/,
  },
  {
    title: 'an added field without a default',
    plant: (folder) => addField(folder, { name: 'note', doc: 'What somebody wrote', type: 'string' }),
    found: ['loopers.order.OrderPaidV1Envelope data.note added-without-default'],
    says: /events already written do not have it.*\n {2}Instead: give it a default, best as \["null", …\]/,
  },
  {
    title: 'a renamed field',
    plant: (folder) =>
      folder.edit(orderPaid, (schema) => {
        Object.assign(fieldOf(schema, 'userId'), { name: 'buyerId', aliases: ['userId'] });
      }),
    found: ['loopers.order.OrderPaidV1Envelope data.buyerId field-renamed'],
    says: /was called userId, which earlier versions still look for/,
  },
  {
    title: 'a field that may be null all at once',
    plant: (folder) =>
      folder.edit(orderPaid, (schema) => {
        Object.assign(fieldOf(schema, 'userId'), { type: ['null', 'string'], default: null });
      }),
    found: ['loopers.order.OrderPaidV1Envelope data.userId made-nullable'],
    says: /may be null now, which earlier versions cannot read/,
  },
  {
    title: 'a field that may not be null any more',
    plant: (folder) =>
      folder.edit('product-viewed.v1.avsc', ({ fields }) => {
        fields[1] = { name: 'userId', doc: 'Who looked', type: 'string' };
      }),
    found: ['loopers.product.ProductViewedV1Envelope data.userId made-required'],
    says: /in events already written it can be/,
  },
  {
    title: 'a changed union',
    plant: (folder) =>
      folder.edit('product-viewed.v1.avsc', (schema) => {
        fieldOf(schema, 'userId').type = ['null', 'string', 'long'];
      }),
    found: [
      'loopers.product.ProductViewedV1 userId union-shape',
      'loopers.product.ProductViewedV1Envelope data.userId union-changed',
    ],
    says: /the union gained long/,
  },
  {
    title: 'another unit behind the same number',
    plant: (folder) =>
      folder.edit('envelope.avsc', (schema) => {
        fieldOf(schema, 'time').type = { type: 'long', logicalType: 'timestamp-micros' };
      }),
    // In the envelope of every event, and still one mistake.
    found: ['loopers.Envelope time type-changed'],
    says: /long \(timestamp-millis\) became long \(timestamp-micros\)/,
  },
  {
    title: 'an array of items without width',
    plant: (folder) =>
      addField(folder, {
        name: 'marks',
        doc: 'Marks',
        type: { type: 'array', items: emptyRecord },
        default: [],
      }),
    found: ['loopers.order.OrderPaidV1 marks zero-width-items'],
    says: /five bytes can promise 50 million of them/,
  },
  {
    title: 'a map of null',
    plant: (folder) =>
      addField(folder, { name: 'marks', doc: 'Marks', type: { type: 'map', values: 'null' }, default: {} }),
    found: ['loopers.order.OrderPaidV1 marks zero-width-items'],
    says: /map of null/,
  },
  {
    title: 'a floating-point number for money',
    plant: (folder) => addField(folder, { ...optional('double'), name: 'discount' }),
    found: ['loopers.order.OrderPaidV1 discount money-type'],
    says: /money as double, which cannot hold 0\.10 exactly\n {2}Instead: write a long of minor units/,
  },
  {
    title: 'a floating-point number for anything',
    plant: (folder) => addField(folder, { ...optional('float'), name: 'weight' }),
    found: ['loopers.order.OrderPaidV1 weight inexact-number'],
    says: /two projections can differ/,
  },
  {
    title: 'money as text',
    plant: (folder) => addField(folder, { ...optional('string'), name: 'shippingFee' }),
    found: ['loopers.order.OrderPaidV1 shippingFee money-type'],
    says: /money as string/,
  },
  {
    title: 'a missing doc on a field',
    plant: (folder) => folder.edit(orderPaid, (schema) => delete fieldOf(schema, 'userId').doc),
    found: ['loopers.order.OrderPaidV1 userId doc-missing'],
    says: /the field has no doc/,
  },
  {
    title: 'a missing doc on a record',
    plant: (folder) => folder.edit(orderPaid, (schema) => delete schema.doc),
    found: ['loopers.order.OrderPaidV1 doc-missing'],
    says: /the record loopers\.order\.OrderPaidV1 has no doc/,
  },
  {
    title: 'a nullable field without a default',
    plant: (folder) => addField(folder, { name: 'note', doc: 'A note', type: ['null', 'string'] }),
    found: [
      'loopers.order.OrderPaidV1 note nullable-without-default',
      'loopers.order.OrderPaidV1Envelope data.note added-without-default',
    ],
    says: /Instead: add "default": null/,
  },
  {
    title: 'null in the second place',
    plant: (folder) =>
      addField(folder, { name: 'note', doc: 'A note', type: ['string', 'null'], default: null }),
    found: ['loopers.order.OrderPaidV1 note null-not-first'],
    says: /Instead: write \["null", type\] with "default": null/,
  },
  {
    title: 'an enum without a default',
    plant: (folder) =>
      addField(
        folder,
        optional({
          type: 'enum',
          name: 'Channel',
          namespace: 'loopers.order',
          doc: 'Where from',
          symbols: ['WEB'],
        }),
      ),
    found: ['loopers.order.OrderPaidV1 note enum-without-default'],
    says: /no symbol can ever be added/,
  },
  {
    title: 'names that nobody else uses',
    plant: (folder) => addField(folder, { ...optional('string'), name: '__proto__x' }),
    found: ['loopers.order.OrderPaidV1 __proto__x name'],
    says: /lowerCamelCase/,
  },
  {
    title: 'a record in a foreign namespace',
    plant: (folder) =>
      addField(folder, optional({ ...emptyRecord, namespace: 'com.example', fields: [fieldA] })),
    found: ['loopers.order.OrderPaidV1 note namespace'],
    says: /loopers\.<domain>/,
  },
  {
    title: 'a record whose name is not that of its event',
    plant: (folder) =>
      folder.edit(orderPaid, (schema) => {
        schema.name = 'OrderSettledV1';
      }),
    found: ['loopers.order.OrderSettledV1 name', 'loopers.order.OrderPaidV1Envelope reader-missing'],
    says: /call the record loopers\.order\.OrderPaidV1/,
  },
  {
    title: 'a file that is no JSON',
    plant: (folder) => folder.write(orderPaid, '{'),
    found: ['order-paid.v1.avsc unreadable'],
    says: /the file is no Avro record/,
  },
  {
    title: 'a default of the wrong type',
    plant: (folder) => addField(folder, { name: 'note', doc: 'A note', type: 'string', default: 7 }),
    found: ['loopers.order.OrderPaidV1 unreadable'],
    says: /avsc refuses it: .*incompatible field default/,
  },
  {
    title: 'a released version that was removed',
    plant: (folder) => folder.remove('released/loopers.order.OrderPaidV1Envelope/1.avsc'),
    found: ['loopers.order.OrderPaidV1Envelope release-removed'],
    says: /OrderPaidV1Envelope\/1\.avsc was released and is gone.*\n {2}Instead: restore the file/,
  },
  {
    title: 'a released version that was changed',
    plant: (folder) => {
      const file = 'released/loopers.order.OrderPaidV1Envelope/1.avsc';
      folder.write(file, folder.read(file).replace('An order was paid', 'An order was settled'));
    },
    found: ['loopers.order.OrderPaidV1Envelope release-changed'],
    says: /no longer describes the bytes written with it/,
  },
  {
    title: 'a released version that was added by hand',
    plant: (folder) =>
      folder.write(
        'released/loopers.order.OrderPaidV1Envelope/2.avsc',
        folder.read('released/loopers.order.OrderPaidV1Envelope/1.avsc'),
      ),
    found: ['loopers.order.OrderPaidV1Envelope release-unlisted'],
    says: /never by hand/,
  },
];

describe('schemas check, offline', () => {
  const folder = plantedFolder();

  it('passes on the schemas of this repository', () => {
    const report = checkSchemas({ avroDir, policy: 'FULL_TRANSITIVE' });
    expect(describeReport(report)).to.match(/^ok: 16 schemas, \d+ released versions, \d+ pairs/);
    expect(report.findings).to.deep.equal([]);
    expect(report.pairs).to.be.greaterThan(28);
  });

  it('finds that every schema is released as it is', () => {
    expect(checkSchemas({ avroDir, policy: 'FULL_TRANSITIVE' }).unreleased).to.deep.equal([]);
  });

  for (const { title, plant, found, says } of plants) {
    it(`finds ${title}`, () => {
      const planted = folder();
      plant(planted);
      const report = planted.check();
      expect(brief(report)).to.have.members(found);
      expect(describeReport(report)).to.match(says);
      for (const { what, instead } of report.findings) expect(what && instead).not.to.equal('');
    });
  }

  it('finds a renamed symbol of a released enum, and lets one be added', () => {
    const planted = folder();
    const channel = (...symbols: string[]) =>
      optional({
        type: 'enum',
        name: 'Channel',
        namespace: 'loopers.order',
        doc: 'Where from',
        symbols,
        default: 'UNKNOWN',
      });
    const setSymbols = (...symbols: string[]) =>
      planted.edit(orderPaid, ({ fields }) => {
        fields[5] = channel(...symbols);
      });
    setSymbols('UNKNOWN', 'WEB');
    planted.edit<{ data: { note: unknown } }[]>('samples/order-paid.v1.json', ([sample]) => {
      if (sample) sample.data.note = 'WEB';
    });
    expect(planted.release().map(({ fullName, number }) => `${fullName} ${number}`)).to.deep.equal([
      'loopers.order.OrderPaidV1Envelope 2',
    ]);
    expect(brief(planted.check())).to.deep.equal([]);

    setSymbols('UNKNOWN', 'WEB', 'SHOP');
    expect(brief(planted.check())).to.deep.equal([]);

    setSymbols('UNKNOWN', 'BROWSER');
    const report = planted.check();
    expect(brief(report)).to.deep.equal(['loopers.order.OrderPaidV1Envelope data.note enum-symbol-removed']);
    expect(describeReport(report)).to.match(/WEB gave way to BROWSER: events already written say WEB/);
  });

  it('lets an optional field be added, and notes that it is not released yet', () => {
    const planted = folder();
    addField(planted, optional('string'));
    const report = planted.check();
    expect(report.findings).to.deep.equal([]);
    expect(report.unreleased).to.deep.equal(['loopers.order.OrderPaidV1Envelope']);
    expect(describeReport(report)).to.match(/^note: .*OrderPaidV1Envelope is not released as it is/);
  });

  it('demands what the policy demands, and of the versions it names', () => {
    const planted = folder();
    planted.edit(orderPaid, ({ fields }) => void fields.pop());
    expect(brief(planted.check('FULL'))).to.have.length(1);
    expect(brief(planted.check('FORWARD'))).to.have.length(1);
    expect(brief(planted.check('BACKWARD_TRANSITIVE'))).to.deep.equal([]);
    expect(brief(planted.check('NONE'))).to.deep.equal([]);

    addField(planted, { name: 'paymentId', doc: 'The payment', type: 'string' });
    expect(brief(planted.check())).to.deep.equal([]);
  });

  it('sees past the newest version when the policy is transitive', () => {
    const planted = folder();
    addField(planted, optional('string'));
    planted.edit<{ data: { note: unknown } }[]>('samples/order-paid.v1.json', ([sample]) => {
      if (sample) sample.data.note = null;
    });
    planted.release();
    planted.edit(orderPaid, (schema) => delete fieldOf(schema, 'note').default);
    const against = (policy: 'FULL' | 'FULL_TRANSITIVE') =>
      planted.check(policy).findings.filter(({ rule }) => rule === 'added-without-default');
    expect(against('FULL')).to.deep.equal([]);
    expect(against('FULL_TRANSITIVE').map((found) => found.against)).to.deep.equal([[1]]);
  });

  it('lets a type of the past gain what the envelope gains, though nobody writes it', () => {
    const planted = folder();
    planted.edit(
      'envelope.avsc',
      ({ fields }) => void fields.push({ ...optional('string'), name: 'tenant' }),
    );
    const report = planted.check();
    expect(report.findings).to.deep.equal([]);
    expect(report.unreleased).to.have.length(15);
  });
});
