/** The same value with its times as JSON has them. */
export type WithIsoTimes<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? WithIsoTimes<Item>[]
    : T extends object
      ? { [Key in keyof T]: WithIsoTimes<T[Key]> }
      : T;

export const withIsoTimes = <T>(value: T): WithIsoTimes<T> => convert(value) as WithIsoTimes<T>;

const convert = (value: unknown): unknown => {
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map(convert);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, convert(inner)]));
};
