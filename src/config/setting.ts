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
