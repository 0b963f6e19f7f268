import avsc, { type Schema, type Type } from 'avsc';

/** What avsc reads from; its own types leave it out. */
interface Tap {
  readonly buf: Buffer;
  readonly pos: number;
  readLong(): number;
  readString(): string;
  skipString(): void;
  writeLong(value: number): void;
}
interface Readable {
  _read(tap: Tap): unknown;
  _skip(tap: Tap): void;
}

/** The bytes promise more than they hold, or would change what they decode to. */
class UnsafeContent extends Error {
  override readonly name = 'UnsafeContent';
}

/**
 * How many items the next block has. avsc believes any number: four bytes that promise 20 million items cost seconds
 * and a gigabyte before it notices that they are not there. An item takes a byte at least, and `schemas check` refuses
 * items of none.
 */
const blockSize = (tap: Tap): number => {
  const count = tap.readLong();
  if (count < 0) tap.readLong();
  const size = Math.abs(count);
  const left = tap.buf.length - tap.pos;
  if (size > left) throw new UnsafeContent(`${size} items cannot be in ${Math.max(left, 0)} bytes`);
  return size;
};

const forEachItem = (tap: Tap, each: () => void): void => {
  for (let size = blockSize(tap); size > 0; size = blockSize(tap)) {
    for (let item = 0; item < size; item++) each();
  }
};

const readable = (type: unknown): Readable => type as Readable;

// avsc takes `_read` from the reader's type and calls it on the resolver too, which has itemsType and valuesType as well.
class BoundedArray extends avsc.types.ArrayType {
  _read(tap: Tap): unknown[] {
    const items = readable(this.itemsType);
    const values: unknown[] = [];
    forEachItem(tap, () => values.push(items._read(tap)));
    return values;
  }

  _skip(tap: Tap): void {
    const items = readable(this.itemsType);
    forEachItem(tap, () => items._skip(tap));
  }
}

class BoundedMap extends avsc.types.MapType {
  _read(tap: Tap): Record<string, unknown> {
    const values = readable(this.valuesType);
    const entries: Record<string, unknown> = {};
    forEachItem(tap, () => {
      const key = tap.readString();
      // An assignment to this key would not add an entry but replace the prototype of the object.
      if (key === '__proto__') throw new UnsafeContent('a map has the key __proto__');
      entries[key] = values._read(tap);
    });
    return entries;
  }

  _skip(tap: Tap): void {
    const values = readable(this.valuesType);
    forEachItem(tap, () => {
      tap.skipString();
      values._skip(tap);
    });
  }
}

/** avsc takes whole numbers up to here, one below what JavaScript counts exactly. */
export const largestLong = Number.MAX_SAFE_INTEGER - 1;
/** avsc doubles a negative number and subtracts one: below this that is not exact, and the sign is lost without a word. */
export const smallestLong = -(2 ** 52);

const isExact = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= smallestLong && (value as number) <= largestLong;

class ExactLong extends avsc.types.LongType {
  _check(value: unknown, _flags: unknown, hook?: (value: unknown, type: Type) => void): boolean {
    const exact = isExact(value);
    if (!exact) hook?.(value, this);
    return exact;
  }

  _read(tap: Tap): number {
    // The last bit of the first byte is the sign; avsc loses it in rounding where the number is too large.
    const isNegative = ((tap.buf[tap.pos] ?? 0) & 1) === 1;
    const value = tap.readLong();
    if (!isExact(value) || isNegative !== value < 0)
      throw new UnsafeContent('a long is beyond what can be read exactly');
    return value;
  }

  _write(tap: Tap, value: unknown): void {
    if (!isExact(value)) throw new Error(`invalid "long": ${JSON.stringify(value)}`);
    tap.writeLong(value);
  }
}

type Options = NonNullable<Parameters<typeof avsc.Type.forSchema>[1]>;

const guarded: NonNullable<Options['typeHook']> = (schema, options) => {
  if (typeof schema !== 'object' || !('type' in schema)) return undefined;
  if (schema.type === 'array') return new BoundedArray(schema as Schema, options);
  if (schema.type === 'map') return new BoundedMap(schema as Schema, options);
  if (schema.type === 'long') return new ExactLong();
  return undefined;
};

/** Unions decode to the bare value, whatever their branches are: the shape of an event does not depend on its schema. */
export const parseSchema = (json: string): Type =>
  avsc.Type.forSchema(JSON.parse(json) as Schema, { wrapUnions: 'never', typeHook: guarded });

export const fingerprintOf = (type: Type): string => type.fingerprint('sha256').toString('hex');
