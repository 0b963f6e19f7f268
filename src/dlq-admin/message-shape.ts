/** Long enough to tell causes apart. */
const shapeLengthMax = 200;

const holes: readonly (readonly [RegExp, string])[] = [
  [/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/gi, '<id>'],
  [/\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:?\d\d)?/g, '<time>'],
  [/"[^"]*"/g, '<text>'],
  [/(?<=^|[\s(=:,])'[^']*'/g, '<text>'],
  [/\b(0x)?(?=[\da-f]*\d)[\da-f]{8,}\b/gi, '<hex>'],
  [/(?<![A-Za-z])[-+]?\d+(\.\d+)?(?![A-Za-z])/g, '<n>'],
];

/** What messages of one cause have in common: ids, numbers and quoted texts are left out. */
export const messageShape = (message: string): string => {
  let shape = message.replace(/\s+/g, ' ').trim();
  for (const [pattern, hole] of holes) shape = shape.replace(pattern, hole);
  return shape.length > shapeLengthMax ? `${shape.slice(0, shapeLengthMax - 1)}…` : shape;
};
