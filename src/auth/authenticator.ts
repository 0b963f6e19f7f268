import type { FindByKey } from './api-keys.ts';
import type { Caller } from './caller.ts';
import type { VerifyToken } from './tokens.ts';

/** Who sends this Authorization header; undefined when nobody we know. API keys answer at once, tokens may take a while. */
export type Authenticate = (
  authorization: string | undefined,
) => Caller | undefined | Promise<Caller | undefined>;

/** The keys of a token set cannot be had: nobody can be told right from wrong, which is not the caller's fault. */
export class AuthenticationUnavailable extends Error {
  override readonly name = 'AuthenticationUnavailable';
}

const bearerPattern = /^Bearer +([\x21-\x7e]+)$/i;

export const createAuthenticator =
  (options: { findByKey: FindByKey; verifyToken?: VerifyToken | undefined }): Authenticate =>
  (authorization) => {
    const credential = authorization === undefined ? undefined : bearerPattern.exec(authorization)?.[1];
    if (credential === undefined) return undefined;
    return options.findByKey(credential) ?? options.verifyToken?.(credential);
  };
