/** What a cursor belongs to: a page of one list in one order cannot go on in another. */
export interface CursorScope {
  readonly list: string;
  readonly direction: string;
}

/** Opaque to clients, who have no business in it; not secret, because it tells nothing that the page did not. */
export const writeCursor = (
  { list, direction }: CursorScope,
  position: { readonly value: number; readonly id: string },
): string =>
  Buffer.from(JSON.stringify([list, direction, position.value, position.id])).toString('base64url');

/** Undefined for what was not made by this list in this order. */
export const readCursor = (
  { list, direction }: CursorScope,
  cursor: string,
): { readonly value: number; readonly id: string } | undefined => {
  const parts = parsed(Buffer.from(cursor, 'base64url').toString('utf8'));
  if (!Array.isArray(parts) || parts.length !== 4) return undefined;
  const [ofList, ofDirection, value, id] = parts as readonly unknown[];
  if (ofList !== list || ofDirection !== direction) return undefined;
  if (!Number.isSafeInteger(value) || typeof id !== 'string' || !idPattern.test(id)) return undefined;
  return { value: value as number, id };
};

const idPattern = /^[A-Za-z0-9-]{1,64}$/;

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};
