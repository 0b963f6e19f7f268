/** An Avro schema with its names resolved: what the rules, the comparison and the generated types walk over. */
export type SchemaNode = PrimitiveNode | NamedNode | ArrayNode | MapNode | UnionNode;
export type NamedNode = RecordNode | EnumNode | FixedNode;

export interface PrimitiveNode {
  readonly kind: 'primitive';
  readonly name: string;
  readonly logicalType: string | undefined;
}
export interface RecordNode {
  readonly kind: 'record';
  readonly fullName: string;
  readonly doc: string | undefined;
  readonly fields: readonly FieldNode[];
}
export interface FieldNode {
  readonly name: string;
  readonly doc: string | undefined;
  readonly aliases: readonly string[];
  readonly type: SchemaNode;
  /** Wrapped, because null is a default and no default is not. */
  readonly default: { readonly value: unknown } | undefined;
}
export interface EnumNode {
  readonly kind: 'enum';
  readonly fullName: string;
  readonly doc: string | undefined;
  readonly symbols: readonly string[];
  readonly default: string | undefined;
}
export interface FixedNode {
  readonly kind: 'fixed';
  readonly fullName: string;
  readonly doc: string | undefined;
  readonly size: number;
  readonly logicalType: string | undefined;
}
export interface ArrayNode {
  readonly kind: 'array';
  readonly items: SchemaNode;
}
export interface MapNode {
  readonly kind: 'map';
  readonly values: SchemaNode;
}
export interface UnionNode {
  readonly kind: 'union';
  readonly branches: readonly SchemaNode[];
}

export class MalformedSchema extends Error {
  override readonly name = 'MalformedSchema';
}

const primitives = new Set(['null', 'boolean', 'int', 'long', 'float', 'double', 'bytes', 'string']);

type Json = Readonly<Record<string, unknown>>;
interface Scope {
  readonly namespace: string;
  readonly named: Map<string, NamedNode>;
}

export const parseModel = (json: string): SchemaNode =>
  nodeOf(JSON.parse(json), { namespace: '', named: new Map() });

/** For schemas that must be records, as every file in `avro` is. */
export const parseRecord = (json: string): RecordNode => {
  const node = parseModel(json);
  if (node.kind !== 'record') throw new MalformedSchema(`a record is wanted here, not ${describeNode(node)}`);
  return node;
};

const nodeOf = (schema: unknown, scope: Scope): SchemaNode => {
  if (typeof schema === 'string') return referenceOf(schema, scope);
  if (Array.isArray(schema))
    return { kind: 'union', branches: schema.map((branch) => nodeOf(branch, scope)) };
  if (typeof schema !== 'object' || schema === null) {
    throw new MalformedSchema(`${JSON.stringify(schema)} is no schema`);
  }
  const json = schema as Json;
  switch (json.type) {
    case 'record':
      return recordOf(json, scope);
    case 'enum':
    case 'fixed':
      return enumOrFixedOf(json, scope);
    case 'array':
      return { kind: 'array', items: nodeOf(json.items, scope) };
    case 'map':
      return { kind: 'map', values: nodeOf(json.values, scope) };
    default: {
      const node = nodeOf(json.type, scope);
      const logicalType = textOf(json.logicalType);
      return node.kind === 'primitive' && logicalType ? { ...node, logicalType } : node;
    }
  }
};

const referenceOf = (name: string, { namespace, named }: Scope): SchemaNode => {
  if (primitives.has(name)) return { kind: 'primitive', name, logicalType: undefined };
  const found = named.get(qualify(name, namespace)) ?? named.get(name);
  if (!found) throw new MalformedSchema(`there is no type ${name}`);
  return found;
};

const recordOf = (json: Json, scope: Scope): RecordNode => {
  const fullName = nameOf(json, scope);
  const fields: FieldNode[] = [];
  const record: RecordNode = { kind: 'record', fullName, doc: textOf(json.doc), fields };
  // Known before its fields are: a record may contain itself.
  define(record, scope);
  if (!Array.isArray(json.fields)) throw new MalformedSchema(`${fullName} has no fields`);
  const inner = { ...scope, namespace: namespaceOf(fullName) };
  for (const field of json.fields as readonly Json[]) fields.push(fieldOf(field, inner));
  return record;
};

const fieldOf = (json: Json, scope: Scope): FieldNode => {
  const name = textOf(json.name);
  if (name === undefined) throw new MalformedSchema('a field has no name');
  return {
    name,
    doc: textOf(json.doc),
    aliases: Array.isArray(json.aliases) ? json.aliases.map(String) : [],
    type: nodeOf(json.type, scope),
    default: 'default' in json ? { value: json.default } : undefined,
  };
};

const enumOrFixedOf = (json: Json, scope: Scope): EnumNode | FixedNode => {
  const common = { fullName: nameOf(json, scope), doc: textOf(json.doc) };
  const node: EnumNode | FixedNode =
    json.type === 'enum'
      ? {
          ...common,
          kind: 'enum',
          symbols: Array.isArray(json.symbols) ? json.symbols.map(String) : [],
          default: textOf(json.default),
        }
      : { ...common, kind: 'fixed', size: Number(json.size), logicalType: textOf(json.logicalType) };
  define(node, scope);
  return node;
};

const define = (node: NamedNode, { named }: Scope): void => {
  if (named.has(node.fullName)) throw new MalformedSchema(`${node.fullName} is defined twice`);
  named.set(node.fullName, node);
};

const nameOf = (json: Json, { namespace }: Scope): string => {
  const name = textOf(json.name);
  if (name === undefined) throw new MalformedSchema(`a ${String(json.type)} has no name`);
  return qualify(name, textOf(json.namespace) ?? namespace);
};

const qualify = (name: string, namespace: string): string =>
  name.includes('.') || namespace === '' ? name : `${namespace}.${name}`;

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

export const namespaceOf = (fullName: string): string =>
  fullName.slice(0, Math.max(fullName.lastIndexOf('.'), 0));
export const shortNameOf = (fullName: string): string => fullName.slice(fullName.lastIndexOf('.') + 1);

/** A type in a few words, for messages. */
export const describeNode = (node: SchemaNode): string => {
  switch (node.kind) {
    case 'primitive':
      return node.logicalType ? `${node.name} (${node.logicalType})` : node.name;
    case 'array':
      return `array of ${describeNode(node.items)}`;
    case 'map':
      return `map of ${describeNode(node.values)}`;
    case 'union':
      return `union of ${node.branches.map(describeNode).join(' and ')}`;
    default:
      return `${node.kind} ${node.fullName}`;
  }
};

export const isNull = (node: SchemaNode): boolean => node.kind === 'primitive' && node.name === 'null';
