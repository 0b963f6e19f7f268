const longNumber = /\d{16}|\de\+/;
const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** A whole number in a JSON text that JavaScript cannot tell exactly. Texts without long numbers are not walked through. */
const findRounded = (json: string): string | undefined => {
  if (!longNumber.test(json)) return undefined;
  for (const [text] of json.matchAll(token)) {
    if (text.startsWith('"')) continue;
    const value = Number(text);
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) return text;
  }
  return undefined;
};

/** Beyond 2^53 numbers are rounded, and nobody would notice: they are refused instead, on the way in and on the way out. */
export const parseExactJson = (json: string): unknown => {
  const rounded = findRounded(json);
  if (rounded !== undefined) throw new RangeError(`${rounded} does not fit into a safe integer`);
  return JSON.parse(json);
};

export const toExactJson = (value: unknown): string => {
  const json = JSON.stringify(value);
  if (json === undefined) throw new TypeError('There is no JSON for this value');
  const rounded = findRounded(json);
  if (rounded !== undefined) throw new RangeError(`${rounded} does not fit into a safe integer`);
  return json;
};
