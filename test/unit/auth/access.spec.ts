import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { SignJWT } from 'jose';
import { type Access, createAccess } from '../../../src/auth/access.ts';
import { loadOrCreateOperatorKey } from '../../../src/auth/operator-key.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { OperatorError } from '../../../src/operator-error.ts';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

describe('who may call', () => {
  let dataDir: string;
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'millrace-access-'));
  });
  afterEach(() => rmSync(dataDir, { recursive: true }));

  const access = (env: Record<string, string> = {}): Promise<Access> => {
    const { config } = loadConfig({ env, envFile: join(dataDir, 'none') });
    return createAccess({ settings: config.auth, host: config.http.host, dataDir });
  };
  const complaint = (env: Record<string, string>): Promise<string> =>
    Promise.resolve()
      .then(() => access(env))
      .then(
        () => expect.fail('accepted'),
        (error: unknown) => {
          expect(error).to.be.instanceOf(OperatorError);
          return (error as OperatorError).line;
        },
      );
  const caller = async (given: Access, key: string) => given.authenticate(`Bearer ${key}`);

  describe('by settings', () => {
    it('are the owners of keys, given plain or as hashes', async () => {
      const given = await access({
        MILLRACE_API_KEYS: `operator:ops:1, shopper:alice:k-alice,operator:sha256:${sha256('ops-2')},shopper:bob:sha256:${sha256('k-bob').toUpperCase()}`,
      });
      expect(await caller(given, 'ops:1')).to.include({ role: 'operator' });
      expect(await caller(given, 'ops-2')).to.include({ role: 'operator' });
      expect(await caller(given, 'k-alice')).to.deep.include({ role: 'shopper', userId: 'alice' });
      expect(await caller(given, 'k-bob')).to.deep.include({ role: 'shopper', userId: 'bob' });
      for (const wrong of [
        'k-carol',
        sha256('ops-2'),
        `sha256:${sha256('ops-2')}`,
        'alice',
        'alice:k-alice',
      ]) {
        expect(await caller(given, wrong), wrong).to.equal(undefined);
      }
      expect(given.operatorKey).to.equal(undefined);
    });

    it('are told apart by their keys, shoppers by their names', async () => {
      const given = await access({
        MILLRACE_API_KEYS: 'operator:a,operator:b,shopper:alice:c,shopper:alice:d',
      });
      const identities = await Promise.all(['a', 'b', 'c', 'd'].map((key) => caller(given, key)));
      const [a, b, c, d] = identities.map((found) => found?.identity);
      expect(a).not.to.equal(b);
      expect(c).to.equal(d);
    });

    it('are never shown with their keys, nor kept with them', async () => {
      const { config, report } = loadConfig({
        env: { MILLRACE_API_KEYS: 'operator:s3cret', JWT_SECRET: 's3cret-'.repeat(5) },
        envFile: join(dataDir, 'none'),
      });
      expect(report.map(({ shown }) => shown).join()).not.to.include('s3cret');
      expect(JSON.stringify(config.auth.apiKeys)).not.to.include('s3cret');
    });

    for (const wrong of [
      's3cret',
      'admin:s3cret',
      'operator:',
      'shopper:s3cret',
      'shopper:a b:s3cret',
      'shopper:alice:',
      'operator:sha256:s3cret',
      `shopper:sha256:${sha256('forgot the user')}`,
      'operator:s3cret,',
      'operator:s3cret,shopper:alice:s3cret',
    ]) {
      it(`are not read from ${wrong}, and the complaint tells no key`, async () => {
        const line = await complaint({ MILLRACE_API_KEYS: wrong });
        expect(line)
          .to.match(/MILLRACE_API_KEYS/)
          .and.not.include('s3cret');
      });
    }

    it('are bearers of tokens, once issuer and audience are named', async () => {
      const secret = 'x'.repeat(32);
      const env = { JWT_SECRET: secret, JWT_ISSUER: 'https://issuer.test', JWT_AUDIENCE: 'millrace' };
      const token = await new SignJWT({ role: 'shopper' })
        .setProtectedHeader({ alg: 'HS256' })
        .setSubject('alice')
        .setIssuer('https://issuer.test')
        .setAudience('millrace')
        .setExpirationTime('1m')
        .sign(Buffer.from(secret));
      expect(await caller(await access(env), token)).to.deep.include({ userId: 'alice' });
      expect(await caller(await access({ ...env, JWT_AUDIENCE: 'other' }), token)).to.equal(undefined);
      expect(await complaint({ ...env, JWT_ISSUER: '' })).to.match(/JWT_ISSUER and JWT_AUDIENCE/);
      expect(await complaint({ ...env, JWT_SECRET: 'x'.repeat(31) })).to.match(/32 bytes/);
      expect(await complaint({ ...env, JWT_JWKS_URL: 'https://issuer.test/keys' })).to.match(/more than one/);
    });

    it('are not checked with keys that are no public keys', async () => {
      const file = join(dataDir, 'keys.json');
      const env = { JWT_JWKS_FILE: file, JWT_ISSUER: 'i', JWT_AUDIENCE: 'a' };
      expect(await complaint(env)).to.match(/cannot be used/);
      for (const content of ['{', '{}', '{"keys":[]}', '{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}']) {
        writeFileSync(file, content);
        expect(await complaint(env), content).to.match(/JWT_JWKS_FILE/);
      }
      for (const algorithm of ['none', 'HS256', 'RS256,HS256', '']) {
        const { config } = algorithm === '' ? loadConfig({ env: {}, envFile: file }) : { config: undefined };
        if (config) expect(config.auth.jwtAlgorithms).to.deep.equal(['RS256', 'ES256', 'EdDSA']);
        else expect(await complaint({ ...env, JWT_ALGORITHMS: algorithm })).to.match(/JWT_ALGORITHMS/);
      }
    });
  });

  describe('without settings', () => {
    it('is whoever has the generated key, on loopback', async () => {
      for (const host of ['127.0.0.1', '127.1.2.3', '::1', 'localhost']) {
        const given = await access({ HOST: host });
        const { key, file } = given.operatorKey ?? expect.fail('no key');
        expect(file).to.equal(join(dataDir, 'operator-key'));
        expect(await caller(given, key)).to.include({ role: 'operator' });
        expect(await caller(given, `${key}x`)).to.equal(undefined);
      }
    });

    it('is nobody where others can reach it: the start says what to set', async () => {
      for (const host of ['0.0.0.0', '::', '192.168.1.2', 'example.test', '128.0.0.1']) {
        expect(await complaint({ HOST: host }), host).to.match(/MILLRACE_API_KEYS.*JWT_SECRET/);
      }
      expect((await access({ HOST: '0.0.0.0', MILLRACE_API_KEYS: 'operator:k' })).operatorKey).to.equal(
        undefined,
      );
    });
  });

  describe('the generated key', () => {
    it('is made once, for its owner’s eyes only', async () => {
      const directory = join(dataDir, 'new', 'place');
      const first = await loadOrCreateOperatorKey(directory);
      expect(first.created).to.equal(true);
      expect(first.key).to.match(/^[A-Za-z0-9_-]{43}$/);
      expect(statSync(first.file).mode & 0o777).to.equal(0o600);
      expect(await loadOrCreateOperatorKey(directory)).to.deep.equal({ ...first, created: false });
    });

    it('is the same for all who start at once', async () => {
      const found = await Promise.all(Array.from({ length: 20 }, () => loadOrCreateOperatorKey(dataDir)));
      expect(new Set(found.map(({ key }) => key)).size).to.equal(1);
      expect(found.filter(({ created }) => created)).to.have.length(1);
      expect(readFileSync(found[0]?.file ?? '', 'utf8').trim()).to.equal(found[0]?.key);
    });

    it('is waited for while another process writes it', async () => {
      const file = join(dataDir, 'operator-key');
      writeFileSync(file, '');
      const waiting = loadOrCreateOperatorKey(dataDir);
      const key = 'k'.repeat(43);
      writeFileSync(file, `${key}\n`);
      expect(await waiting).to.include({ key, created: false });
    });

    it('is not made up from a file that holds something else', async () => {
      writeFileSync(join(dataDir, 'operator-key'), 'hello\n');
      expect(await complaint({})).to.match(/holds no operator key.*Remove the file/);
      rmSync(join(dataDir, 'operator-key'));
      mkdirSync(join(dataDir, 'operator-key'));
      expect(await complaint({})).to.match(/cannot be read/);
    });
  });
});
