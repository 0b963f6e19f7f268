import { SchemaRegistry as Client, COMPATIBILITY, SchemaType } from '@kafkajs/confluent-schema-registry';
import type { Type } from 'avsc';
import { parseSchema } from '../avro/parse-schema.ts';
import type { CompatibilityPolicy } from '../schema-evolution/compatibility-policy.ts';
import { IncompatibleSchema, refusalReasons } from './incompatible-schema.ts';
import {
  connectRegistryRest,
  type RegistryAccess,
  type RegistryRest,
  splitCredentials,
} from './registry-rest.ts';

/** The registry answered that it does not have what was asked for: trying again will not help. */
export class UnknownSchemaId extends Error {
  override readonly name = 'UnknownSchemaId';
}

/** The registry has something under that id, but not an Avro schema: that does not change either. */
export class UnusableSchema extends Error {
  override readonly name = 'UnusableSchema';
}

export interface SchemaRegistry {
  /**
   * The id of a schema under a subject; registers it when it is new there. Asked once, then remembered. Fails with
   * IncompatibleSchema when the registry refuses it, which is not asked again for a moment.
   */
  idOf(subject: string, schemaJson: string): Promise<number>;
  /** The schema a record was written with. Asked once, then remembered. */
  writerType(schemaId: number): Promise<Type>;
}

export const connectSchemaRegistry = (
  options: RegistryAccess & { readonly compatibility: CompatibilityPolicy },
): SchemaRegistry => {
  const { base, auth } = splitCredentials(options.url);
  const client = new Client(
    {
      host: base,
      ...(auth && { auth }),
      retry: { retries: 2, maxRetryTimeInSecs: options.requestTimeoutMs / 1000 },
    },
    { [SchemaType.AVRO]: { wrapUnions: 'never' } },
  );
  const rest = connectRegistryRest(options);
  const ids = new Map<string, Promise<number>>();
  const types = new Map<number, Promise<Type>>();

  const register = async (subject: string, schemaJson: string): Promise<number> => {
    // The library sets the level only after the first registration, when a second writer may have been let in.
    await rest.setCompatibility(subject, options.compatibility);
    try {
      const registering = client.register(
        { type: SchemaType.AVRO, schema: schemaJson },
        { subject, compatibility: COMPATIBILITY[options.compatibility], updateConfig: false },
      );
      return (await within(options.requestTimeoutMs, registering)).id;
    } catch (cause) {
      if (!refusingStatuses.has(statusOf(cause))) throw cause;
      const registered = await rest.versions(subject);
      const reasons = refusalReasons({ registered, candidate: schemaJson, policy: options.compatibility });
      throw new IncompatibleSchema(subject, reasons.length > 0 ? reasons : [(cause as Error).message], cause);
    }
  };

  return {
    idOf: (subject, schemaJson) =>
      remember(ids, `${subject} ${schemaJson}`, () => register(subject, schemaJson)),
    writerType: (schemaId) =>
      remember(types, schemaId, () =>
        within(options.requestTimeoutMs, findWriterType({ client, rest }, schemaId)),
      ),
  };
};

/** It goes against the schemas before it (409), or is none (422): what else goes wrong is not the schema's fault. */
const refusingStatuses: ReadonlySet<unknown> = new Set([409, 422]);

const findWriterType = async (
  { client, rest }: { client: Client; rest: RegistryRest },
  schemaId: number,
): Promise<Type> => {
  try {
    const type = (await client.getSchema(schemaId)) as unknown as Type;
    // Read again by our own rules: the library's type believes every promise that bytes make.
    return parseSchema(JSON.stringify(type.schema({ exportAttrs: true })));
  } catch (cause) {
    if (statusOf(cause) === 404) {
      throw new UnknownSchemaId(`The registry has no schema ${schemaId}`, { cause });
    }
    // What goes wrong on the way has a status, a connection that was refused too; but any server may answer with a page.
    if (statusOf(cause) === undefined && (await rest.hasSchema(schemaId))) {
      const what = (cause as Error).message;
      throw new UnusableSchema(`The registry's schema ${schemaId} cannot be used: ${what}`, { cause });
    }
    throw cause;
  }
};

/** The library waits for an answer as long as it takes. */
const within = async <T>(timeMs: number, answer: Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<never>((_, reject) => {
    const failure = new Error(`The registry did not answer within ${timeMs} ms`);
    timer = setTimeout(() => reject(failure), timeMs);
  });
  try {
    return await Promise.race([answer, over]);
  } finally {
    clearTimeout(timer);
  }
};

/** Whoever publishes asks for every page: a registry that has just refused a schema is left alone for that long. */
const refusalKeptMs = 1000;

/** One question at a time per key; an answer is kept, a refusal for a moment, any other failure is not. */
const remember = <K, V>(answers: Map<K, Promise<V>>, key: K, ask: () => Promise<V>): Promise<V> => {
  const known = answers.get(key);
  if (known) return known;
  const asked = ask();
  answers.set(key, asked);
  asked.catch((error: unknown) => {
    if (!(error instanceof IncompatibleSchema)) answers.delete(key);
    else setTimeout(() => answers.delete(key), refusalKeptMs).unref();
  });
  return asked;
};

const statusOf = (error: unknown): unknown =>
  typeof error === 'object' && error !== null && 'status' in error ? error.status : undefined;
