import { createHmac, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { expect } from 'chai';
import { exportJWK, type JWK, type JWTPayload, SignJWT } from 'jose';
import { createTokenVerifier, type TokenKeys, type VerifyToken } from '../../../src/auth/tokens.ts';

const issuer = 'https://issuer.test';
const audience = 'millrace';
const secret = 'a shared secret of at least 32 bytes';
const nowSeconds = 1_700_000_000;

interface Claims extends JWTPayload {
  readonly role?: string;
}
const shopperClaims: Claims = {
  sub: 'alice',
  role: 'shopper',
  iss: issuer,
  aud: audience,
  exp: nowSeconds + 600,
};

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const sign = (
  claims: Claims,
  options: { alg: string; key: KeyObject | Uint8Array; kid?: string },
): Promise<string> =>
  new SignJWT(claims)
    .setProtectedHeader({ alg: options.alg, ...(options.kid !== undefined && { kid: options.kid }) })
    .sign(options.key);
const signShared = (claims: Claims, key = secret): Promise<string> =>
  sign(claims, { alg: 'HS256', key: Buffer.from(key) });

describe('tokens', () => {
  let nowMs: number;
  const verifier = (keys: TokenKeys): VerifyToken =>
    createTokenVerifier({ keys, issuer, audience, clockToleranceSeconds: 5, clock: () => nowMs });
  beforeEach(() => {
    nowMs = nowSeconds * 1000;
  });

  describe('with a shared key', () => {
    const verify = (token: string) => verifier({ kind: 'shared', secret })(token);

    it('name a shopper or an operator', async () => {
      expect(await verify(await signShared(shopperClaims))).to.deep.equal({
        role: 'shopper',
        userId: 'alice',
        identity: 'shopper:alice',
      });
      const operator = { ...shopperClaims, role: 'operator', sub: 'ops@example.test' };
      expect(await verify(await signShared(operator))).to.deep.equal({
        role: 'operator',
        identity: 'operator:sub-ops@example.test',
      });
    });

    const { exp: _exp, ...immortal } = shopperClaims;
    const { role: _role, ...roleless } = shopperClaims;
    const { sub: _sub, ...nameless } = shopperClaims;
    const { iss: _iss, ...issuerless } = shopperClaims;
    const { aud: _aud, ...audienceless } = shopperClaims;
    const refused: readonly [string, () => string | Promise<string>][] = [
      ['expired', () => signShared({ ...shopperClaims, exp: nowSeconds - 6 })],
      ['without an end', () => signShared(immortal)],
      ['not valid yet', () => signShared({ ...shopperClaims, nbf: nowSeconds + 60 })],
      ['of another issuer', () => signShared({ ...shopperClaims, iss: 'https://other.test' })],
      ['of no issuer', () => signShared(issuerless)],
      ['for another audience', () => signShared({ ...shopperClaims, aud: 'other' })],
      ['for no audience', () => signShared(audienceless)],
      ['without a role', () => signShared(roleless)],
      ['with a role that is none', () => signShared({ ...shopperClaims, role: 'admin' })],
      ['of nobody', () => signShared(nameless)],
      ['of a user that cannot be', () => signShared({ ...shopperClaims, sub: 'a/b' })],
      ['signed with another key', () => signShared(shopperClaims, 'another secret of at least 32 bytes')],
      [
        'with a forged payload',
        async () => {
          const [header, , signature] = (await signShared(shopperClaims)).split('.');
          return `${header}.${base64({ ...shopperClaims, role: 'operator' })}.${signature}`;
        },
      ],
      ['with alg none', () => `${base64({ alg: 'none' })}.${base64(shopperClaims)}.`],
      ['with alg None', () => `${base64({ alg: 'None' })}.${base64(shopperClaims)}.AA`],
      ['signed with HS512', () => sign(shopperClaims, { alg: 'HS512', key: Buffer.from(secret.repeat(2)) })],
      ['signed with a key pair', () => sign(shopperClaims, { alg: 'ES256', key: ecKeys.privateKey })],
      [
        'with a critical extension',
        () => {
          const signed = `${base64({ alg: 'HS256', crit: ['x'], x: 1 })}.${base64(shopperClaims)}`;
          return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
        },
      ],
      ['made of nothing', () => '..'],
      ['made of letters', () => 'a.b.c'],
      ['with four parts', async () => `${await signShared(shopperClaims)}.x`],
      ['that is a key', () => secret],
    ];
    for (const [what, make] of refused) {
      it(`are refused when ${what}`, async () => {
        expect(await verify(await make())).to.equal(undefined);
      });
    }

    it('allow the clocks to differ a little', async () => {
      expect(await verify(await signShared({ ...shopperClaims, exp: nowSeconds - 4 }))).not.to.equal(
        undefined,
      );
    });

    it('are not checked again at once, and not believed for longer than they last', async () => {
      const remembering = verifier({ kind: 'shared', secret });
      const token = await signShared({ ...shopperClaims, exp: nowSeconds + 20 });
      expect(remembering(token)).to.be.instanceOf(Promise);
      await remembering(token);
      expect(remembering(token)).to.deep.include({ userId: 'alice' });
      nowMs += 26_000;
      expect(await remembering(token)).to.equal(undefined);
    });
  });

  const ecKeys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const rsaKeys = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const edKeys = generateKeyPairSync('ed25519');

  describe('with a set of public keys', () => {
    let verify: VerifyToken;
    let publicKeys: JWK[];
    before(async () => {
      publicKeys = [
        { ...(await exportJWK(ecKeys.publicKey)), kid: 'ec' },
        { ...(await exportJWK(rsaKeys.publicKey)), kid: 'rsa' },
        { ...(await exportJWK(edKeys.publicKey)), kid: 'ed' },
      ];
      verify = verifier({ kind: 'set', keys: { keys: publicKeys }, algorithms: ['RS256', 'ES256', 'EdDSA'] });
    });

    it('are accepted with every signature on the list', async () => {
      for (const [alg, { privateKey: key }, kid] of [
        ['ES256', ecKeys, 'ec'],
        ['RS256', rsaKeys, 'rsa'],
        ['EdDSA', edKeys, 'ed'],
      ] as const) {
        expect(await verify(await sign(shopperClaims, { alg, key, kid })), alg).to.include({
          userId: 'alice',
        });
      }
    });

    it('are refused with a signature that is not on it', async () => {
      const key = rsaKeys.privateKey;
      expect(await verify(await sign(shopperClaims, { alg: 'RS512', key, kid: 'rsa' }))).to.equal(undefined);
      const narrow = verifier({ kind: 'set', keys: { keys: publicKeys }, algorithms: ['ES256'] });
      expect(await narrow(await sign(shopperClaims, { alg: 'RS256', key, kid: 'rsa' }))).to.equal(undefined);
    });

    it('are refused when the public key was taken for a shared one', async () => {
      const pem = rsaKeys.publicKey.export({ type: 'spki', format: 'pem' });
      for (const key of [Buffer.from(pem), Buffer.from(JSON.stringify(publicKeys[1]))]) {
        expect(await verify(await sign(shopperClaims, { alg: 'HS256', key, kid: 'rsa' }))).to.equal(
          undefined,
        );
      }
      expect(await verify(await signShared(shopperClaims))).to.equal(undefined);
      expect(await verify(`${base64({ alg: 'none', kid: 'rsa' })}.${base64(shopperClaims)}.`)).to.equal(
        undefined,
      );
    });

    it('are refused when their key is not in the set, also when they bring it along', async () => {
      const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const jwk = await exportJWK(stranger.publicKey);
      const token = await new SignJWT(shopperClaims)
        .setProtectedHeader({ alg: 'ES256', jwk, kid: 'ec' })
        .sign(stranger.privateKey);
      expect(await verify(token)).to.equal(undefined);
      const key = stranger.privateKey;
      expect(await verify(await sign(shopperClaims, { alg: 'ES256', key, kid: 'new' }))).to.equal(undefined);
    });
  });

  it('cannot be told right from wrong while the key server is away', async () => {
    const url = new URL('http://127.0.0.1:1/keys');
    const verify = verifier({ kind: 'url', url, algorithms: ['ES256'] });
    const token = await sign(shopperClaims, { alg: 'ES256', key: ecKeys.privateKey });
    const failed = await Promise.resolve(verify(token)).then(
      () => undefined,
      (error: Error) => error,
    );
    expect(failed?.name).to.equal('AuthenticationUnavailable');
    expect(await verify('no token at all')).to.equal(undefined);
  });
});
