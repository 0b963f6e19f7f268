import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { OperatorError } from '../../../src/operator-error.ts';
import { diffSchemas } from '../../../src/schema-evolution/diff-schemas.ts';
import { checkGoldenEvents } from '../../../src/schema-evolution/golden-events.ts';
import { planReleases } from '../../../src/schema-evolution/release-schemas.ts';
import { fieldOf, type PlantedFolder, plantedFolder, realPath } from './planted.ts';

const view = 'product-viewed.v1.avsc';
const fullName = 'loopers.product.ProductViewedV1Envelope';
const contentOf = (dir: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(dir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => [join(parentPath, name), readFileSync(join(parentPath, name), 'utf8')]),
  );

const addReferrer = (planted: PlantedFolder): void => {
  planted.edit(view, ({ fields }) => {
    fields.push({ name: 'referrer', doc: 'Where from', type: ['null', 'string'], default: null });
  });
  planted.edit<{ data: { referrer: string | null } }[]>('samples/product-viewed.v1.json', (samples) => {
    for (const { data } of samples) data.referrer = 'search';
  });
};

describe('schemas release', () => {
  const folder = plantedFolder();

  it('adds nothing where everything is released', () => {
    const planted = folder();
    const before = contentOf(planted.dir);
    expect(planted.release()).to.deep.equal([]);
    expect(contentOf(planted.dir)).to.deep.equal(before);
  });

  it('adds the next number with its golden events, and touches nothing that is there', () => {
    const planted = folder();
    const before = contentOf(planted.dir);
    addReferrer(planted);
    expect(planted.release().map(({ number }) => number)).to.deep.equal([2]);

    const { unreleased, findings, releases } = planted.check();
    expect({ unreleased, findings, releases }).to.deep.equal({ unreleased: [], findings: [], releases: 17 });
    const after = contentOf(planted.dir);
    const changed = Object.keys(before).filter((file) => before[file] !== after[file]);
    expect(changed.map((file) => file.slice(planted.dir.length + 1))).to.have.members([
      view,
      'samples/product-viewed.v1.json',
      'checksums.json',
    ]);
    const added = Object.keys(after).filter((file) => !(file in before));
    expect(added.map((file) => file.slice(planted.dir.length + 1))).to.have.members([
      `released/${fullName}/2.avsc`,
      'golden/loopers.product.viewed.v1/2-by-a-user.json',
      'golden/loopers.product.viewed.v1/2-by-nobody-known.json',
    ]);
    // The golden events of release 1 hold as they are: the new field came in beside what they expect.
    expect(checkGoldenEvents(planted.dir, realPath)).to.deep.equal([]);
  });

  it('writes the same bytes for the same schemas and samples', () => {
    const contents = [folder(), folder()].map((planted) => {
      addReferrer(planted);
      planted.release();
      return Object.values(contentOf(planted.dir)).sort();
    });
    expect(contents[0]).to.deep.equal(contents[1]);
  });

  it('wants a sample that fits, new fields included', () => {
    const planted = folder();
    addReferrer(planted);
    planted.edit<{ data: { referrer?: unknown } }[]>('samples/product-viewed.v1.json', ([sample]) => {
      delete sample?.data.referrer;
    });
    expect(() => planReleases(planted.dir, realPath)).to.throw(
      OperatorError,
      'does not fit product-viewed.v1.avsc',
    );
    planted.remove('samples/product-viewed.v1.json');
    expect(() => planReleases(planted.dir, realPath)).to.throw(
      OperatorError,
      'no sample for product-viewed.v1',
    );
  });
});

describe('schemas diff', () => {
  const folder = plantedFolder();

  it('is empty right after a release', () => {
    expect(diffSchemas(folder().dir)).to.deep.equal([]);
  });

  it('tells what was added, removed and changed, field by field', () => {
    const planted = folder();
    addReferrer(planted);
    planted.edit('order-paid.v1.avsc', (schema) => {
      schema.fields = schema.fields.filter(({ name }) => name !== 'paymentId');
      const items = fieldOf(schema, 'items').type as { items: { fields: [] } };
      fieldOf(items.items, 'quantity').type = 'int';
      fieldOf(schema, 'userId').doc = 'The buyer';
    });
    const told = diffSchemas(planted.dir).map(({ schema, released, changes }) => ({
      schema,
      released,
      changes: changes.map(({ path, kind, rule }) => `${kind} ${path} ${rule}`),
    }));
    expect(told).to.have.deep.members([
      { schema: fullName, released: 1, changes: ['added data.referrer field-added'] },
      {
        schema: 'loopers.order.OrderPaidV1Envelope',
        released: 1,
        changes: [
          'changed data.userId doc-changed',
          'changed data.items[].quantity type-changed',
          'removed data.paymentId field-removed',
        ],
      },
    ]);
  });

  it('tells a schema that was never released', () => {
    const planted = folder();
    planted.remove('released/loopers.like.LikeCreatedV1Envelope/1.avsc');
    expect(diffSchemas(planted.dir)).to.deep.equal([
      { schema: 'loopers.like.LikeCreatedV1Envelope', released: undefined, changes: [] },
    ]);
  });
});
