import { createSecretKey, hash } from 'node:crypto';
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose';
import { AuthenticationUnavailable } from './authenticator.ts';
import { type Caller, operator, shopper } from './caller.ts';

export type VerifyToken = (token: string) => Caller | undefined | Promise<Caller | undefined>;

/** Where the keys come from decides which signatures count: a shared key never serves for a public one or back. */
export type TokenKeys =
  | { readonly kind: 'shared'; readonly secret: string }
  | { readonly kind: 'set'; readonly keys: JSONWebKeySet; readonly algorithms: readonly string[] }
  | { readonly kind: 'url'; readonly url: URL; readonly algorithms: readonly string[] };

export interface TokenRules {
  readonly keys: TokenKeys;
  readonly issuer: string;
  readonly audience: string;
  readonly clockToleranceSeconds: number;
  readonly clock: () => number;
}

const userIdPattern = /^[A-Za-z0-9-]{1,64}$/;
const operatorNamePattern = /^[\x21-\x7e]{1,128}$/;
const requiredClaims = ['exp', 'sub', 'role'];
const keySetTimeoutMs = 5000;

export const createTokenVerifier = (rules: TokenRules): VerifyToken => {
  const { key, algorithms } = keyOf(rules.keys);
  const verified = createVerifiedTokens(rules.clock);

  const verify = async (token: string, digest: string): Promise<Caller | undefined> => {
    try {
      const { payload } = await jwtVerify(token, key, {
        algorithms: [...algorithms],
        issuer: rules.issuer,
        audience: rules.audience,
        requiredClaims,
        clockTolerance: rules.clockToleranceSeconds,
        currentDate: new Date(rules.clock()),
      });
      const caller = callerOf(payload);
      if (caller && payload.exp !== undefined) verified.remember(digest, caller, payload.exp * 1000);
      return caller;
    } catch (error) {
      if (isAboutTheToken(error)) return undefined;
      throw new AuthenticationUnavailable('The keys of the tokens cannot be read', { cause: error });
    }
  };

  return (token) => {
    if (!looksLikeToken(token)) return undefined;
    const digest = hash('sha256', token, 'base64');
    return verified.find(digest) ?? verify(token, digest);
  };
};

const keyOf = (keys: TokenKeys): { key: JWTVerifyGetKey; algorithms: readonly string[] } => {
  switch (keys.kind) {
    case 'shared': {
      const secret = createSecretKey(Buffer.from(keys.secret));
      return { key: async () => secret, algorithms: ['HS256'] };
    }
    case 'set':
      return { key: createLocalJWKSet(keys.keys), algorithms: keys.algorithms };
    case 'url':
      return {
        key: createRemoteJWKSet(keys.url, { timeoutDuration: keySetTimeoutMs }),
        algorithms: keys.algorithms,
      };
  }
};

/** Anything else is an API key that nobody has: not worth asking a key server about. */
const looksLikeToken = (token: string): boolean => {
  const first = token.indexOf('.');
  const second = token.indexOf('.', first + 1);
  return first > 0 && second > first && !token.includes('.', second + 1);
};

const callerOf = ({ role, sub }: JWTPayload): Caller | undefined => {
  if (role === 'shopper' && sub !== undefined && userIdPattern.test(sub)) return shopper(sub);
  if (role === 'operator' && sub !== undefined && operatorNamePattern.test(sub))
    return operator(`sub-${sub}`);
  return undefined;
};

/** The rest is a key set that does not answer or makes no sense. */
const isAboutTheToken = (error: unknown): boolean =>
  error instanceof errors.JWTInvalid ||
  error instanceof errors.JWTExpired ||
  error instanceof errors.JWTClaimValidationFailed ||
  error instanceof errors.JWSInvalid ||
  error instanceof errors.JWSSignatureVerificationFailed ||
  error instanceof errors.JOSEAlgNotAllowed ||
  error instanceof errors.JOSENotSupported ||
  error instanceof errors.JWKSNoMatchingKey ||
  error instanceof errors.JWKSMultipleMatchingKeys;

const verifiedTokensMax = 10_000;
/** A key taken out of the set stops counting after this at the latest. */
const rememberedMs = 60_000;

/** Checking a signature costs more than a whole view; a shopper sends the same token with each of them. */
const createVerifiedTokens = (clock: () => number) => {
  const tokens = new Map<string, { caller: Caller; untilMs: number }>();
  return {
    find: (digest: string): Caller | undefined => {
      const known = tokens.get(digest);
      if (!known) return undefined;
      if (clock() < known.untilMs) return known.caller;
      tokens.delete(digest);
      return undefined;
    },
    remember: (digest: string, caller: Caller, expiresAtMs: number): void => {
      const untilMs = Math.min(expiresAtMs, clock() + rememberedMs);
      if (tokens.size >= verifiedTokensMax) {
        const [oldest] = tokens.keys();
        if (oldest !== undefined) tokens.delete(oldest);
      }
      tokens.set(digest, { caller, untilMs });
    },
  };
};
