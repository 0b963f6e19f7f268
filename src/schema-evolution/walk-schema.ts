import type { FieldNode, SchemaNode } from './schema-model.ts';

/** A place in a schema, as a person would write it down: `data.items[].quantity`. */
export const at = (path: string, field: string): string => (path === '' ? field : `${path}.${field}`);
export const itemsOf = (path: string): string => `${path}[]`;
export const valuesOf = (path: string): string => `${path}{}`;

export interface Place {
  readonly node: SchemaNode;
  readonly path: string;
  /** The field whose type this is, or is part of. */
  readonly field: FieldNode | undefined;
  /** Whether the node is the field's type itself and not a part of it. */
  readonly isWholeField: boolean;
}

/** Every type in a schema with where it stands; what contains itself is entered once. */
export const placesIn = (root: SchemaNode): readonly Place[] => {
  const entered = new Set<SchemaNode>();
  const from = (place: Place): readonly Place[] => [place, ...partsOf(place, entered).flatMap(from)];
  return from({ node: root, path: '', field: undefined, isWholeField: false });
};

const partsOf = (place: Place, entered: Set<SchemaNode>): readonly Place[] => {
  const { node, path } = place;
  const part = (inner: SchemaNode, innerPath: string): Place => ({
    ...place,
    node: inner,
    path: innerPath,
    isWholeField: false,
  });
  switch (node.kind) {
    case 'array':
      return [part(node.items, itemsOf(path))];
    case 'map':
      return [part(node.values, valuesOf(path))];
    case 'union':
      return node.branches.map((branch) => part(branch, path));
    case 'record':
      if (entered.has(node)) return [];
      entered.add(node);
      return node.fields.map((field) => ({
        node: field.type,
        path: at(path, field.name),
        field,
        isWholeField: true,
      }));
    default:
      return [];
  }
};

/** Whether a value takes no bytes at all: such items can be promised by the million for free. */
export const isZeroWidth = (node: SchemaNode, entered: ReadonlySet<SchemaNode> = new Set()): boolean => {
  switch (node.kind) {
    case 'primitive':
      return node.name === 'null';
    case 'fixed':
      return node.size === 0;
    case 'record':
      return (
        !entered.has(node) && node.fields.every(({ type }) => isZeroWidth(type, new Set([...entered, node])))
      );
    default:
      return false;
  }
};
