import { SchemaRegistry as Client, COMPATIBILITY, SchemaType } from '@kafkajs/confluent-schema-registry';
import type { Type } from 'avsc';

/** The registry answered that it does not have what was asked for: trying again will not help. */
export class UnknownSchemaId extends Error {
  override readonly name = 'UnknownSchemaId';
}

export interface SchemaRegistry {
  /** The id of a schema under a subject; registers it when it is new there. Asked once, then remembered. */
  idOf(subject: string, schemaJson: string): Promise<number>;
  /** The schema a record was written with. Asked once, then remembered. */
  writerType(schemaId: number): Promise<Type>;
}

export const connectSchemaRegistry = (options: { url: string; requestTimeoutMs: number }): SchemaRegistry => {
  const client = new Client(
    { host: options.url, retry: { retries: 2, maxRetryTimeInSecs: options.requestTimeoutMs / 1000 } },
    { [SchemaType.AVRO]: { wrapUnions: 'never' } },
  );
  const ids = new Map<string, Promise<number>>();
  const types = new Map<number, Promise<Type>>();

  return {
    idOf: (subject, schemaJson) =>
      remember(ids, `${subject} ${schemaJson}`, async () => {
        const { id } = await client.register(
          { type: SchemaType.AVRO, schema: schemaJson },
          { subject, compatibility: COMPATIBILITY.FULL_TRANSITIVE },
        );
        return id;
      }),
    writerType: (schemaId) =>
      remember(types, schemaId, async () => {
        try {
          return (await client.getSchema(schemaId)) as unknown as Type;
        } catch (cause) {
          if (isNotFound(cause))
            throw new UnknownSchemaId(`The registry has no schema ${schemaId}`, { cause });
          throw cause;
        }
      }),
  };
};

/** One question at a time per key; an answer is kept, a failure is not. */
const remember = <K, V>(answers: Map<K, Promise<V>>, key: K, ask: () => Promise<V>): Promise<V> => {
  const known = answers.get(key);
  if (known) return known;
  const asked = ask();
  answers.set(key, asked);
  asked.catch(() => answers.delete(key));
  return asked;
};

const isNotFound = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && 'status' in error && error.status === 404;
