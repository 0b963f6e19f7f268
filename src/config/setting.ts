import { createHash } from 'node:crypto';

/** One setting: the environment variable that carries it, what it accepts, and what it is when nobody says. */
export interface Setting<T> {
  readonly variable: string;
  readonly parse: (text: string) => T | undefined;
  readonly allowed: string;
  readonly fallback: T;
  readonly describes: string;
  readonly secret: 'no' | 'whole' | 'url-password';
}

/** What a person writes into the table of settings; the rest follows from the kind of value. */
interface Entry<T> {
  readonly variable: string;
  readonly fallback: T;
  readonly describes: string;
}

export const integer = (entry: Entry<number> & { min: number; max: number }): Setting<number> => ({
  ...entry,
  parse: (text) => {
    const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
    return value >= entry.min && value <= entry.max ? value : undefined;
  },
  allowed: `a whole number from ${entry.min} to ${entry.max}`,
  secret: 'no',
});

export const oneOf = <const T extends string>(entry: Entry<T> & { values: readonly T[] }): Setting<T> => ({
  ...entry,
  parse: (text) => entry.values.find((value) => value === text),
  allowed: `one of ${entry.values.join(', ')}`,
  secret: 'no',
});

export const oneOfNumbers = <const T extends number>(
  entry: Entry<T> & { values: readonly T[] },
): Setting<T> => ({
  ...entry,
  parse: (text) => entry.values.find((value) => String(value) === text),
  allowed: `one of ${entry.values.join(', ')}`,
  secret: 'no',
});

export const text = (entry: Entry<string>): Setting<string> => ({
  ...entry,
  parse: (value) => (value.trim() === '' ? undefined : value),
  allowed: 'a text that is not empty',
  secret: 'no',
});

export const optionalUrl = (
  entry: Omit<Entry<string | undefined>, 'fallback'> & { protocols: readonly string[] },
): Setting<string | undefined> => ({
  ...entry,
  fallback: undefined,
  parse: (value) =>
    URL.canParse(value) && entry.protocols.includes(new URL(value).protocol) ? value : undefined,
  allowed: `a URL that starts with ${entry.protocols.map((protocol) => `${protocol}//`).join(' or ')}`,
  secret: 'url-password',
});

export const optionalBrokers = (
  entry: Omit<Entry<readonly string[] | undefined>, 'fallback'>,
): Setting<readonly string[] | undefined> => ({
  ...entry,
  fallback: undefined,
  parse: (value) => {
    const brokers = value.split(',').map((broker) => broker.trim());
    return brokers.every((broker) => /^[^\s:/]+:\d{1,5}$/.test(broker)) ? Object.freeze(brokers) : undefined;
  },
  allowed: 'host:port, several separated by commas',
  secret: 'no',
});

export const flag = (entry: Entry<boolean>): Setting<boolean> => ({
  ...entry,
  parse: (value) => (value === 'true' ? true : value === 'false' ? false : undefined),
  allowed: 'true or false',
  secret: 'no',
});

export const optionalText = (
  entry: Omit<Entry<string | undefined>, 'fallback'>,
): Setting<string | undefined> => ({
  ...entry,
  fallback: undefined,
  parse: (value) => (value.trim() === '' ? undefined : value),
  allowed: 'a text that is not empty',
  secret: 'no',
});

export const optionalSecret = (
  entry: Omit<Entry<string | undefined>, 'fallback'> & { bytesMin: number },
): Setting<string | undefined> => ({
  ...entry,
  fallback: undefined,
  parse: (value) => (Buffer.byteLength(value) >= entry.bytesMin ? value : undefined),
  allowed: `a secret of at least ${entry.bytesMin} bytes`,
  secret: 'whole',
});

export const someOf = <const T extends string>(
  entry: Entry<readonly T[]> & { values: readonly T[] },
): Setting<readonly T[]> => ({
  ...entry,
  parse: (value) => {
    const chosen = value.split(',').map((name) => entry.values.find((known) => known === name.trim()));
    return chosen.every((name) => name !== undefined) ? Object.freeze(chosen) : undefined;
  },
  allowed: `one or more of ${entry.values.join(', ')}, separated by commas`,
  secret: 'no',
});

/** Who a key stands for, and the key's SHA-256: the key itself is forgotten as soon as it is read. */
export type ApiKey =
  | { readonly role: 'operator'; readonly sha256: string }
  | { readonly role: 'shopper'; readonly userId: string; readonly sha256: string };

export const optionalApiKeys = (
  entry: Omit<Entry<readonly ApiKey[] | undefined>, 'fallback'>,
): Setting<readonly ApiKey[] | undefined> => ({
  ...entry,
  fallback: undefined,
  parse: (value) => {
    const keys = value.split(',').map((part) => parseApiKey(part.trim()));
    if (!keys.every((key) => key !== undefined)) return undefined;
    // One key for two callers would let one of them act as the other.
    const distinct = new Set(keys.map(({ sha256 }) => sha256)).size === keys.length;
    return distinct ? Object.freeze(keys) : undefined;
  },
  allowed:
    'operator:KEY or shopper:USERID:KEY, several separated by commas, each key once; sha256:HEX in place of KEY keeps only its hash',
  secret: 'whole',
});

/** A user called sha256 is refused: it would be a hash whose owner was forgotten. */
const apiKeyPattern =
  /^(?:operator|shopper:(?!sha256:)(?<userId>[A-Za-z0-9-]{1,64})):(?<key>[\x21-\x7e]{1,256})$/;
const sha256Pattern = /^sha256:(?<hex>[0-9a-f]{64})$/i;

const parseApiKey = (text: string): ApiKey | undefined => {
  const { userId, key } = apiKeyPattern.exec(text)?.groups ?? {};
  if (key === undefined) return undefined;
  const hex = sha256Pattern.exec(key)?.groups?.hex;
  if (hex === undefined && key.startsWith('sha256:')) return undefined;
  const sha256 = hex?.toLowerCase() ?? createHash('sha256').update(key).digest('hex');
  return userId === undefined ? { role: 'operator', sha256 } : { role: 'shopper', userId, sha256 };
};
