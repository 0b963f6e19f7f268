import { OperatorError } from '../operator-error.ts';
import { type EventSchema, readEventSchemas } from './event-schemas.ts';
import { isNull, type RecordNode, type SchemaNode, shortNameOf } from './schema-model.ts';
import { placesIn } from './walk-schema.ts';

export const typesFile = 'src/avro/event-data.ts';

/** The data of every event as TypeScript sees it after decoding, one interface per record. */
export const generateTypes = (avroDir: string): string => {
  const { schemas, findings } = readEventSchemas(avroDir);
  const [unreadable] = findings;
  if (unreadable) {
    throw new OperatorError(`${unreadable.schema}: ${unreadable.what}`, { remedy: unreadable.instead });
  }
  const inOrder = schemas.toSorted((a, b) => (a.file < b.file ? -1 : 1));
  return [
    '// Written by `millrace schemas types` from the schemas in avro; change those instead.\n',
    ...[...recordsOf(inOrder).values()].map(interfaceOf),
    byFile(inOrder),
  ].join('\n');
};

/** Every record once, under the name that TypeScript knows it by. */
const recordsOf = (schemas: readonly EventSchema[]): ReadonlyMap<string, RecordNode> => {
  const records = new Map<string, RecordNode>();
  for (const { node } of schemas.flatMap(({ data }) => placesIn(data))) {
    if (node.kind !== 'record') continue;
    const name = shortNameOf(node.fullName);
    const known = records.get(name);
    if (known && known.fullName !== node.fullName) {
      throw new OperatorError(`${known.fullName} and ${node.fullName} would both be called ${name}`, {
        remedy: 'Give one of the records another name',
      });
    }
    records.set(name, node);
  }
  return records;
};

const interfaceOf = ({ fullName, doc, fields }: RecordNode): string =>
  [
    ...comment(doc, ''),
    `export interface ${shortNameOf(fullName)} {`,
    ...fields.flatMap(({ name, doc: about, type }) => [
      ...comment(about, '  '),
      `  readonly ${name}: ${typeOf(type)};`,
    ]),
    '}\n',
  ].join('\n');

const byFile = (schemas: readonly EventSchema[]): string =>
  [
    '/** What each schema file describes. */',
    'export interface EventDataByFile {',
    ...schemas.map(({ file, data }) => `  readonly '${file}': ${shortNameOf(data.fullName)};`),
    '}\n',
  ].join('\n');

const comment = (doc: string | undefined, indent: string): readonly string[] =>
  doc ? [`${indent}/** ${doc.replaceAll('*/', '* /')} */`] : [];

const typeOf = (node: SchemaNode): string => {
  switch (node.kind) {
    case 'primitive':
      return primitiveTypes[node.name] ?? 'unknown';
    case 'record':
      return shortNameOf(node.fullName);
    case 'enum':
      return node.symbols.map((symbol) => `'${symbol}'`).join(' | ');
    case 'fixed':
      return 'Buffer';
    case 'array':
      return `readonly ${inParentheses(typeOf(node.items))}[]`;
    case 'map':
      return `Readonly<Record<string, ${typeOf(node.values)}>>`;
    case 'union':
      // null comes last, as people write it.
      return node.branches
        .toSorted((a, b) => Number(isNull(a)) - Number(isNull(b)))
        .map(typeOf)
        .join(' | ');
  }
};

const primitiveTypes: Readonly<Record<string, string>> = {
  null: 'null',
  boolean: 'boolean',
  int: 'number',
  long: 'number',
  float: 'number',
  double: 'number',
  bytes: 'Buffer',
  string: 'string',
};

const inParentheses = (type: string): string => (/[ |]/.test(type) ? `(${type})` : type);
