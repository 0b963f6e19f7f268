import fc from 'fast-check';
import { largestLong, smallestLong } from '../../../src/avro/parse-schema.ts';
import type { SchemaNode } from '../../../src/schema-evolution/schema-model.ts';

/** Any value that a schema allows. */
export const valuesOf = (node: SchemaNode): fc.Arbitrary<unknown> => {
  switch (node.kind) {
    case 'record':
      return fc.record(Object.fromEntries(node.fields.map(({ name, type }) => [name, valuesOf(type)])), {
        noNullPrototype: true,
      });
    case 'array':
      return fc.array(valuesOf(node.items), { maxLength: 5 });
    case 'map':
      return fc.dictionary(
        fc.string().filter((key) => key !== '__proto__'),
        valuesOf(node.values),
        { maxKeys: 5, noNullPrototype: true },
      );
    case 'union':
      return fc.oneof(...node.branches.map(valuesOf));
    case 'enum':
      return fc.constantFrom(...node.symbols);
    case 'fixed':
      return fc.uint8Array({ minLength: node.size, maxLength: node.size }).map((bytes) => Buffer.from(bytes));
    case 'primitive':
      return primitiveValues(node.name);
  }
};

const primitiveValues = (name: string): fc.Arbitrary<unknown> => {
  switch (name) {
    case 'null':
      return fc.constant(null);
    case 'boolean':
      return fc.boolean();
    case 'int':
      return fc.integer();
    case 'long':
      return fc.integer({ min: smallestLong, max: largestLong });
    case 'float':
      return fc.float({ noNaN: true });
    case 'double':
      return fc.double({ noNaN: true });
    case 'bytes':
      return fc.uint8Array().map((bytes) => Buffer.from(bytes));
    default:
      return fc.string({ unit: 'grapheme' });
  }
};
