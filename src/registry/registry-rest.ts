import { OperatorError } from '../operator-error.ts';
import type { CompatibilityPolicy } from '../schema-evolution/compatibility-policy.ts';

/** What the registry's library does not offer: levels before the first schema, and questions without registering. */
export interface RegistryRest {
  /** Sets the level of a subject, also of one that has no schema yet. Writes only what is not so already. */
  setCompatibility(subject: string, policy: CompatibilityPolicy): Promise<void>;
  /** Whether the registry would take a schema as the next version of a subject, and what it says to that. */
  judge(subject: string, schemaJson: string): Promise<RegistryVerdict>;
  /** The schemas of a subject, oldest first; none where there is no such subject. */
  versions(subject: string): Promise<readonly string[]>;
  /** Whether there is a schema of that id, of whatever kind. */
  hasSchema(schemaId: number): Promise<boolean>;
}

export interface RegistryVerdict {
  readonly compatible: boolean;
  /** Reasons, from registries that give any. */
  readonly messages: readonly string[];
}

/** The registry did not answer, or not as a registry does. */
export class RegistryRequestFailed extends OperatorError {
  constructor(request: string, answer: string, cause?: unknown) {
    super(`The schema registry failed on ${request}: ${answer}`, {
      remedy: 'See whether it runs; SCHEMA_REGISTRY_URL says where it is looked for',
      cause,
    });
  }
}

export interface RegistryAccess {
  readonly url: string;
  readonly requestTimeoutMs: number;
}

/** Name and password of a URL, which clients want to have apart from it. */
export const splitCredentials = (
  url: string,
): {
  readonly base: string;
  readonly auth: { readonly username: string; readonly password: string } | undefined;
} => {
  const parsed = new URL(url);
  const { username, password } = parsed;
  parsed.username = '';
  parsed.password = '';
  return {
    base: parsed.href.replace(/\/+$/, ''),
    auth: username
      ? { username: decodeURIComponent(username), password: decodeURIComponent(password) }
      : undefined,
  };
};

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export const connectRegistryRest = ({ url, requestTimeoutMs }: RegistryAccess): RegistryRest => {
  const { base, auth } = splitCredentials(url);
  const headers = {
    'content-type': 'application/vnd.schemaregistry.v1+json',
    ...(auth && {
      authorization: `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString('base64')}`,
    }),
  };

  const send = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    const request = `${method} ${path}`;
    try {
      const response = await fetch(`${base}${path}`, {
        method,
        headers,
        signal: AbortSignal.timeout(requestTimeoutMs),
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok && response.status !== 404) {
        throw new RegistryRequestFailed(request, `${response.status} ${text}`);
      }
      return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
    } catch (error) {
      if (error instanceof RegistryRequestFailed) throw error;
      throw new RegistryRequestFailed(request, (error as Error).message, error);
    }
  };
  /** Not found is an answer here: there is no such subject, or no level is set for it. */
  const ask = async <T>(method: string, path: string, body?: unknown): Promise<T | undefined> => {
    const answer = await send(method, path, body);
    return answer.status === 404 ? undefined : (answer.body as T);
  };

  return {
    setCompatibility: async (subject, policy) => {
      const path = `/config/${encodeURIComponent(subject)}`;
      const isSet = async (): Promise<boolean> =>
        (await ask<{ compatibilityLevel?: string }>('GET', path))?.compatibilityLevel === policy;
      if (await isSet()) return;
      try {
        await ask('PUT', path, { compatibility: policy });
      } catch (error) {
        // Processes that start together ask for the same; a registry may refuse all but the first.
        if (!(await isSet())) throw error;
      }
    },
    judge: async (subject, schemaJson) => {
      const path = `/compatibility/subjects/${encodeURIComponent(subject)}/versions/latest?verbose=true`;
      const answer = await ask<{ is_compatible: boolean; messages?: string[] }>('POST', path, {
        schema: schemaJson,
      });
      return { compatible: answer?.is_compatible ?? true, messages: answer?.messages ?? [] };
    },
    versions: async (subject) => {
      const path = `/subjects/${encodeURIComponent(subject)}/versions`;
      const numbers = (await ask<number[]>('GET', path)) ?? [];
      const found = await Promise.all(
        numbers.map((number) => ask<{ schema: string }>('GET', `${path}/${number}`)),
      );
      return found.flatMap((version) => (version ? [version.schema] : []));
    },
    hasSchema: async (schemaId) => {
      const found = await ask<{ schema?: unknown }>('GET', `/schemas/ids/${schemaId}`);
      return typeof found?.schema === 'string';
    },
  };
};
