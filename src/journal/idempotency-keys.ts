import { createHash } from 'node:crypto';
import type { SqlRunner } from '../postgres/database.ts';

export interface StoredAnswer {
  readonly fingerprint: Buffer;
  readonly answer: unknown;
  /** Null for an answer that was given before tokens were. */
  readonly consistencyToken: string | null;
}

/** A caller's key at a route, as one value that says nothing about either. */
export const hashKey = (claim: { scope: string; key: string }): Buffer =>
  createHash('sha256').update(claim.scope).update('\0').update(claim.key).digest();

const findStatement = {
  name: 'find-answers',
  text: `
    select key_hash as "keyHash", fingerprint, answer, consistency_token as "consistencyToken",
           created_at < clock_timestamp() - $2 * interval '1 millisecond' as expired
    from idempotency_key where key_hash = any ($1::bytea[])`,
};

const forgetStatement = {
  name: 'forget-expired-answers',
  text: `
    delete from idempotency_key
    where key_hash = any ($1::bytea[]) and created_at < clock_timestamp() - $2 * interval '1 millisecond'`,
};

/** The answers already given under these keys, by the key's hash in hexadecimal. A key whose time is over is free again. */
export const findAnswers = async (
  db: SqlRunner,
  keyHashes: readonly Buffer[],
  retentionMs: number,
): Promise<ReadonlyMap<string, StoredAnswer>> => {
  const rows = await db.execute<StoredAnswer & { keyHash: Buffer; expired: boolean }>(findStatement, [
    keyHashes,
    retentionMs,
  ]);
  const expired = rows.filter((row) => row.expired).map(({ keyHash }) => keyHash);
  if (expired.length > 0) await db.execute(forgetStatement, [expired, retentionMs]);
  return new Map(
    rows.filter((row) => !row.expired).map(({ keyHash, ...stored }) => [keyHash.toString('hex'), stored]),
  );
};

const purgeStatement = {
  name: 'purge-answers',
  text: `
    delete from idempotency_key
    where key_hash in (select key_hash from idempotency_key
                       where created_at < clock_timestamp() - $1 * interval '1 millisecond' limit $2)
    returning 1`,
};

/** Drops expired answers in small bites, so that no command waits for it. Answers with how many went. */
export const purgeAnswers = async (
  db: SqlRunner,
  options: { retentionMs: number; batchMax: number },
): Promise<number> => {
  let purged = 0;
  for (;;) {
    const rows = await db.execute(purgeStatement, [options.retentionMs, options.batchMax]);
    purged += rows.length;
    if (rows.length < options.batchMax) return purged;
  }
};
