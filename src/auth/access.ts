import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { BlockList, isIP } from 'node:net';
import type { JSONWebKeySet } from 'jose';
import { OperatorError } from '../operator-error.ts';
import { createKeyRing, type KnownKey } from './api-keys.ts';
import { type Authenticate, createAuthenticator } from './authenticator.ts';
import { loadOrCreateOperatorKey, type OperatorKey } from './operator-key.ts';
import { createTokenVerifier, type TokenKeys, type VerifyToken } from './tokens.ts';

/** The settings that decide who may call. */
export interface AccessSettings {
  readonly apiKeys: readonly KnownKey[] | undefined;
  readonly jwtSecret: string | undefined;
  readonly jwksUrl: string | undefined;
  readonly jwksFile: string | undefined;
  readonly jwtAlgorithms: readonly string[];
  readonly jwtIssuer: string | undefined;
  readonly jwtAudience: string | undefined;
  readonly jwtClockToleranceSeconds: number;
}

export interface Access {
  readonly authenticate: Authenticate;
  /** Set when nobody configured any credentials; `created` says whether the operator has yet to see the key. */
  readonly operatorKey: OperatorKey | undefined;
}

export const createAccess = async (options: {
  settings: AccessSettings;
  host: string;
  dataDir: string;
  clock?: () => number;
}): Promise<Access> => {
  const { settings, host, dataDir, clock = Date.now } = options;
  const verifyToken = tokenVerifier(settings, clock);
  const configured = settings.apiKeys !== undefined || verifyToken !== undefined;
  if (!configured && !isLoopback(host)) {
    throw new OperatorError(`HOST ${host} can be reached from other machines, and nobody may call yet`, {
      remedy:
        'Set MILLRACE_API_KEYS (operator:KEY), or JWT_SECRET or JWT_JWKS_URL with JWT_ISSUER and JWT_AUDIENCE, or listen on 127.0.0.1',
      exitCode: 2,
    });
  }
  const operatorKey = configured ? undefined : await loadOrCreateOperatorKey(dataDir);
  const keys: readonly KnownKey[] = operatorKey
    ? [{ role: 'operator', sha256: hash('sha256', operatorKey.key, 'hex') }]
    : (settings.apiKeys ?? []);
  return { authenticate: createAuthenticator({ findByKey: createKeyRing(keys), verifyToken }), operatorKey };
};

const tokenVerifier = (settings: AccessSettings, clock: () => number): VerifyToken | undefined => {
  const keys = tokenKeys(settings);
  if (!keys) return undefined;
  const { jwtIssuer: issuer, jwtAudience: audience } = settings;
  if (issuer === undefined || audience === undefined) {
    throw new OperatorError('Tokens are accepted, but not said from whom and for whom', {
      remedy: 'Set JWT_ISSUER and JWT_AUDIENCE',
      exitCode: 2,
    });
  }
  const clockToleranceSeconds = settings.jwtClockToleranceSeconds;
  return createTokenVerifier({ keys, issuer, audience, clockToleranceSeconds, clock });
};

const tokenKeys = (settings: AccessSettings): TokenKeys | undefined => {
  const { jwtSecret, jwksUrl, jwksFile, jwtAlgorithms: algorithms } = settings;
  const given = [jwtSecret, jwksUrl, jwksFile].filter((value) => value !== undefined).length;
  if (given > 1) {
    throw new OperatorError('The keys of the tokens come from more than one place', {
      remedy: 'Set one of JWT_SECRET, JWT_JWKS_URL and JWT_JWKS_FILE',
      exitCode: 2,
    });
  }
  if (jwtSecret !== undefined) return { kind: 'shared', secret: jwtSecret };
  if (jwksUrl !== undefined) return { kind: 'url', url: new URL(jwksUrl), algorithms };
  if (jwksFile !== undefined) return { kind: 'set', keys: readKeySet(jwksFile), algorithms };
  return undefined;
};

const readKeySet = (file: string): JSONWebKeySet => {
  try {
    const set: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (isKeySet(set)) return set;
    throw new Error('it is not a set of public keys');
  } catch (cause) {
    throw new OperatorError(`The key set ${file} cannot be used: ${(cause as Error).message}`, {
      remedy: 'Name a file with {"keys": [...]} of public keys in JWT_JWKS_FILE',
      exitCode: 2,
      cause,
    });
  }
};

/** A private or shared key in this file is a mistake that somebody should hear about before it is deployed. */
const isKeySet = (value: unknown): value is JSONWebKeySet =>
  typeof value === 'object' &&
  value !== null &&
  'keys' in value &&
  Array.isArray(value.keys) &&
  value.keys.length > 0 &&
  value.keys.every(
    (key: unknown) => typeof key === 'object' && key !== null && !('d' in key) && !('k' in key),
  );

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

const isLoopback = (host: string): boolean => {
  const family = isIP(host);
  if (family === 0) return host === 'localhost';
  return loopback.check(host, family === 6 ? 'ipv6' : 'ipv4');
};
