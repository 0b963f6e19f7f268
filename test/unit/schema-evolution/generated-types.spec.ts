import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { avroDir } from '../../../src/avro/envelope-schema.ts';
import { projectRoot } from '../../../src/project-root.ts';
import { generateTypes, typesFile } from '../../../src/schema-evolution/generate-types.ts';
import { fieldOf, plantedFolder } from './planted.ts';

describe('generated types', () => {
  const folder = plantedFolder();

  it('are those of the schemas as they are', () => {
    const current = readFileSync(join(projectRoot, typesFile), 'utf8');
    expect(generateTypes(avroDir), 'run `millrace schemas types`').to.equal(current);
  });

  it('change with every change of a schema that TypeScript would see', () => {
    const planted = folder();
    planted.edit('stock-depleted.v1.avsc', ({ fields }) => {
      fields.push(
        { name: 'tags', doc: 'Tags', type: { type: 'array', items: ['null', 'string'] }, default: [] },
        { name: 'counts', doc: 'Counts', type: { type: 'map', values: 'int' }, default: {} },
        { name: 'raw', doc: 'Raw', type: ['null', 'bytes'], default: null },
        {
          name: 'why',
          doc: 'Why */ so',
          type: { type: 'enum', name: 'Why', doc: 'Why', symbols: ['SOLD', 'LOST'], default: 'SOLD' },
          default: 'SOLD',
        },
      );
    });
    const types = generateTypes(planted.dir);
    expect(types).to.include('  readonly tags: readonly (string | null)[];\n');
    expect(types).to.include('  readonly counts: Readonly<Record<string, number>>;\n');
    expect(types).to.include('  readonly raw: Buffer | null;\n');
    expect(types).to.include("  /** Why * / so */\n  readonly why: 'SOLD' | 'LOST';\n");
  });

  it('are refused where two records would have one name', () => {
    const planted = folder();
    planted.edit('stock-depleted.v1.avsc', ({ fields }) => {
      const money = { type: 'record', namespace: 'loopers.stock', name: 'Money', doc: 'Another', fields: [] };
      fields.push({ name: 'worth', doc: 'Worth', type: money });
    });
    expect(() => generateTypes(planted.dir)).to.throw('would both be called Money');
  });
});

/** The part of the tree that must not compile when schema and event drift apart, in a folder of its own. */
const compile = (plant: (dir: string) => void): { readonly code: number | null; readonly output: string } => {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-drift-'));
  try {
    mkdirSync(join(dir, 'src/avro'), { recursive: true });
    for (const part of ['src/domain', 'src/event-catalogue', typesFile, 'src/avro/event-data-agreement.ts']) {
      cpSync(join(projectRoot, part), join(dir, part), { recursive: true });
    }
    const { compilerOptions } = JSON.parse(readFileSync(join(projectRoot, 'tsconfig.json'), 'utf8'));
    writeFileSync(
      join(dir, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: { ...compilerOptions, types: [] }, include: ['src'] }),
    );
    writeFileSync(join(dir, 'package.json'), '{ "type": "module" }');
    plant(dir);
    const tsc = join(projectRoot, 'node_modules/.bin/tsc');
    const { status, stdout } = spawnSync(tsc, ['-p', dir], { encoding: 'utf8' });
    return { code: status, output: stdout };
  } finally {
    rmSync(dir, { recursive: true });
  }
};

const replaceIn = (file: string, from: string, to: string) => (dir: string) => {
  const text = readFileSync(join(dir, file), 'utf8');
  expect(text, file).to.include(from);
  writeFileSync(join(dir, file), text.replace(from, to));
};

describe('drift between an event and its schema', function () {
  this.timeout(60_000);
  const folder = plantedFolder();

  it('is not there', () => {
    const { code, output } = compile(() => {});
    expect(code, output).to.equal(0);
  });

  const view = 'src/domain/product-view/product-view.ts';
  for (const [title, plant, event] of [
    [
      'a new field of an event',
      replaceIn(view, 'productId: ProductId;', 'productId: ProductId;\n  readonly x: string;'),
      'ProductViewed',
    ],
    [
      'an optional one',
      replaceIn(view, 'productId: ProductId;', 'productId: ProductId;\n  readonly x?: string;'),
      'ProductViewed',
    ],
    ['another type', replaceIn(view, 'userId: UserId | null', 'userId: UserId'), 'ProductViewed'],
    [
      'a change deep inside',
      replaceIn('src/domain/order/order.ts', 'quantity: number', 'quantity: string'),
      'OrderCreated',
    ],
    [
      'another schema for the event',
      replaceIn(
        'src/event-catalogue/event-catalogue.ts',
        "'like-created.v1.avsc'",
        "'stock-depleted.v1.avsc'",
      ),
      'LikeCreated',
    ],
  ] as const) {
    it(`does not compile: ${title}`, () => {
      const { code, output } = compile(plant);
      expect(code).not.to.equal(0);
      expect(output, output).to.match(
        new RegExp(
          `event-data-agreement.ts.*Type 'true' is not assignable to type '.*"${event} and its schema differ"`,
        ),
      );
    });
  }

  it('does not compile: a changed schema, its types written anew', () => {
    const planted = folder();
    planted.edit('payment-failed.v1.avsc', (schema) => {
      fieldOf(schema, 'reason').type = ['null', 'string'];
    });
    const { code, output } = compile((dir) => {
      writeFileSync(join(dir, typesFile), generateTypes(planted.dir));
    });
    expect(code).not.to.equal(0);
    expect(output).to.match(/Type 'true' is not assignable to type '"PaymentFailed and its schema differ"'/);
  });

  it('does not compile: an upcaster that leads nowhere', () => {
    const { code, output } = compile(
      replaceIn(
        'src/event-catalogue/upcasters.ts',
        "to: 'loopers.product.registered.v2'",
        "to: 'loopers.product.registered.v9'",
      ),
    );
    expect(code).not.to.equal(0);
    expect(output).to.match(/not assignable to type '"loopers.product.registered.v9 is no event type"'/);
  });
});
