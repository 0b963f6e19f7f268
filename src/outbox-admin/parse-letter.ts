import { z } from 'zod';
import type { DeadLetter } from '../relay/dead-letters.ts';

const hex = z
  .string()
  .regex(/^([\da-f]{2}){32}$/)
  .transform((text) => Buffer.from(text, 'hex'));

/** What `letterToJson` of the relay writes. Fields that are not known here were written by a newer version: refused. */
const Letter = z.strictObject({
  id: z.int().positive(),
  eventId: z.guid(),
  eventType: z.string().min(1),
  source: z.string(),
  aggregateType: z.string().min(1),
  aggregateId: z.string().min(1),
  aggregateVersion: z.int().positive(),
  partitionKey: z.string(),
  requestId: z.string(),
  schemaFingerprint: hex,
  payload: z.base64().transform((text) => Buffer.from(text, 'base64')),
  contentHash: hex,
  traceparent: z.string().nullable(),
  createdAt: z.iso.datetime().transform((text) => new Date(text)),
  reason: z.string(),
});

/** One line of the backup file, or what is wrong with it. */
export const parseLetter = (line: string): DeadLetter | { readonly problem: string } => {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    return { problem: 'It is not JSON' };
  }
  // Rows from the retry relay carry their count of tries along; a dead letter has no use for it.
  const parsed = Letter.safeParse(withoutRetryCount(json));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const place = issue?.path.join('.') || 'The line';
    return { problem: `${place}: ${issue?.message ?? 'not a dead letter'}` };
  }
  const { reason, ...row } = parsed.data;
  return { row, reason };
};

const withoutRetryCount = (json: unknown): unknown => {
  if (typeof json !== 'object' || json === null || !('retryCount' in json)) return json;
  const { retryCount: _, ...rest } = json;
  return rest;
};
