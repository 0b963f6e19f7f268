import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { expect } from 'chai';

/**
 * The tree shows the flow of an event, and these rules keep it so. A room may use what is listed and nothing else;
 * a room that is not listed here has no rule yet, which fails too.
 */
const shared = ['operator-error.ts', 'project-root.ts'];
const mayUse: Readonly<Record<string, readonly string[]>> = {
  domain: [],
  config: [],
  logging: [],
  'event-catalogue': ['domain'],
  avro: ['event-catalogue'],
  postgres: [],
  journal: ['avro', 'domain', 'event-catalogue', 'postgres'],
  commands: ['domain', 'event-catalogue', 'journal', 'postgres'],
  topics: ['event-catalogue', 'kafka'],
  kafka: ['streams', 'topics'],
  'schema-evolution': ['avro', 'event-catalogue', 'streams'],
  registry: ['avro', 'event-catalogue', 'schema-evolution', 'streams'],
  relay: ['avro', 'event-catalogue', 'journal', 'kafka', 'operator-audit', 'postgres', 'registry'],
  'operator-audit': ['postgres'],
  'outbox-admin': ['avro', 'event-catalogue', 'journal', 'operator-audit', 'postgres', 'relay'],
  'relay-admin': ['operator-audit', 'postgres', 'relay'],
  'projection-admin': ['operator-audit', 'postgres', 'streams-postgres'],
  'topics-admin': ['kafka', 'operator-audit', 'postgres', 'relay-admin', 'streams-postgres', 'topics'],
  'dlq-admin': ['avro', 'kafka', 'operator-audit', 'postgres', 'streams', 'topics'],
  streams: [],
  'streams-postgres': ['postgres', 'streams'],
  projections: ['avro', 'event-catalogue', 'streams'],
  rebuild: [
    'avro',
    'event-catalogue',
    'journal',
    'kafka',
    'operator-audit',
    'postgres',
    'relay',
    'streams',
    'streams-postgres',
  ],
  'product-cache': ['read-model'],
  'read-model': ['postgres', 'projections', 'streams'],
  live: ['postgres', 'read-model'],
  auth: [],
  consistency: ['event-catalogue', 'journal'],
  http: [
    'auth',
    'commands',
    'consistency',
    'dlq-admin',
    'domain',
    'journal',
    'live',
    'outbox-admin',
    'projection-admin',
    'read-model',
    'relay-admin',
  ],
  // It implements the observers of the rooms it measures; those know nothing of it.
  metrics: ['consistency', 'http', 'live', 'product-cache', 'relay', 'streams'],
  infra: ['config'],
  app: ['*'],
  cli: [
    'app',
    'auth',
    'avro',
    'config',
    'dlq-admin',
    'http',
    'infra',
    'logging',
    'outbox-admin',
    'postgres',
    'projection-admin',
    'rebuild',
    'registry',
    'relay',
    'relay-admin',
    'schema-evolution',
    'streams',
    'topics-admin',
  ],
};

/** Libraries that appear in one room only, so that there is one place to replace them. */
const libraryRooms: Readonly<Record<string, readonly string[]>> = {
  kafkajs: ['kafka'],
  pg: ['postgres'],
  'pg-logical-replication': ['postgres'],
  slonik: ['postgres'],
  'node-pg-migrate': ['postgres'],
  '@kafkajs/confluent-schema-registry': ['registry'],
  avsc: ['avro', 'journal', 'registry'],
  rxjs: ['streams', 'projections'],
  redis: ['product-cache'],
  fastify: ['http'],
  jose: ['auth'],
  commander: ['cli'],
  'prom-client': ['metrics'],
};

const root = join(import.meta.dirname, '..', '..');
const src = join(root, 'src');

interface Import {
  readonly file: string;
  readonly target: string;
}

const importsOf = (file: string, text: string): readonly Import[] =>
  [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(([, target = '']) => ({ file, target }));

const roomOf = (file: string): string => file.split('/')[0] ?? file;

/** What is wrong with one import, or nothing. */
const complaint = ({ file, target }: Import): string | undefined => {
  const room = roomOf(file);
  if (target.startsWith('.')) {
    const imported = normalize(join(dirname(file), target));
    if (roomOf(imported) === room || shared.includes(imported)) return undefined;
    if (shared.includes(file)) return `${file} must not depend on ${imported}`;
    const allowed = mayUse[room];
    if (!allowed) return `src/${room} has no rule: say in mayUse what it may use`;
    if (allowed.includes('*') || allowed.includes(roomOf(imported))) return undefined;
    return `${file} (${room}) must not use ${imported} (${roomOf(imported)})`;
  }
  if (room === 'domain') return `${file}: the domain uses nothing but itself, not ${target}`;
  const library = Object.keys(libraryRooms).find((name) => target === name || target.startsWith(`${name}/`));
  if (!library || libraryRooms[library]?.includes(room)) return undefined;
  return `${file} must not use ${target}: it belongs to ${libraryRooms[library]?.join(', ')}`;
};

describe('import directions', () => {
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  );
  const imports = files.flatMap((file) => importsOf(file, readFileSync(join(src, file), 'utf8')));

  it('finds the imports of the tree', () => {
    expect(imports.length).to.be.greaterThan(100);
  });

  it('follow the flow of an event', () => {
    expect(imports.map(complaint).filter((found) => found !== undefined)).to.deep.equal([]);
  });

  it('would be noticed if they did not', () => {
    expect(
      complaint({ file: 'domain/product/product.ts', target: '../../journal/append-events.ts' }),
    ).to.match(/must not use/);
    expect(complaint({ file: 'domain/ids.ts', target: 'node:crypto' })).to.match(/nothing but itself/);
    expect(complaint({ file: 'relay/relay.ts', target: 'kafkajs' })).to.match(/belongs to kafka/);
    expect(
      complaint({ file: 'journal/read-stream.ts', target: '../projections/product-statistic.ts' }),
    ).to.match(/must not use/);
    expect(complaint({ file: 'misc/x.ts', target: '../domain/ids.ts' })).to.match(/has no rule/);
  });

  it('leave no room without a name', () => {
    const rooms = readdirSync(src, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    const nameless = rooms.filter(({ name }) => ['utils', 'common', 'helpers', 'misc', 'lib'].includes(name));
    expect(nameless).to.deep.equal([]);
    expect(rooms.map(({ name }) => name).filter((name) => !(name in mayUse))).to.deep.equal([]);
    expect(relative(root, src)).to.equal('src');
  });
});
