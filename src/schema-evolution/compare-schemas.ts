import { isDeepStrictEqual } from 'node:util';
import type { Direction } from './finding.ts';
import {
  describeNode,
  type EnumNode,
  type FieldNode,
  isNull,
  type PrimitiveNode,
  type RecordNode,
  type SchemaNode,
  type UnionNode,
} from './schema-model.ts';
import { at, itemsOf, valuesOf } from './walk-schema.ts';

/** One difference between two versions of a schema, and what it breaks. */
export interface Change {
  readonly path: string;
  readonly kind: 'added' | 'removed' | 'changed';
  readonly rule: string;
  readonly what: string;
  readonly instead: string;
  /** backward: the newer cannot read the older. forward: the older cannot read the newer. */
  readonly breaks: readonly Direction[];
}

const both: readonly Direction[] = ['backward', 'forward'];
const replaceEvent = 'replace the event by a new version with an upcaster (CONTRIBUTING.md)';
const addBeside = `leave it as it is and add a new optional field beside it, or ${replaceEvent}`;

/**
 * What changed from the older to the newer schema, field by field. It is stricter than Avro where Avro would let the
 * meaning of stored events change: a lost field, another unit, another default.
 */
export const changesBetween = (older: SchemaNode, newer: SchemaNode): readonly Change[] => {
  const entered = new Set<SchemaNode>();

  const compare = (before: SchemaNode, after: SchemaNode, path: string): readonly Change[] => {
    if (before.kind === 'union' || after.kind === 'union') return compareUnions(before, after, path);
    if (before.kind === 'primitive' && after.kind === 'primitive')
      return comparePrimitives(before, after, path);
    if (before.kind === 'array' && after.kind === 'array') {
      return compare(before.items, after.items, itemsOf(path));
    }
    if (before.kind === 'map' && after.kind === 'map') {
      return compare(before.values, after.values, valuesOf(path));
    }
    if (before.kind === 'enum' && after.kind === 'enum') return compareEnums(before, after, path);
    if (before.kind === 'fixed' && after.kind === 'fixed') {
      if (isDeepStrictEqual({ ...before, doc: '' }, { ...after, doc: '' })) return [];
    } else if (before.kind === 'record' && after.kind === 'record' && before.fullName === after.fullName) {
      if (entered.has(after)) return [];
      entered.add(after);
      return compareRecords(before, after, path);
    }
    return [typeChanged(before, after, path)];
  };

  const compareRecords = (before: RecordNode, after: RecordNode, path: string): readonly Change[] => {
    const changes: Change[] = [...compareDocs(before, after, path)];
    const kept = new Set<FieldNode>();
    for (const field of after.fields) {
      const earlier = earlierOf(field, before);
      if (!earlier) {
        changes.push(added(field, at(path, field.name)));
        continue;
      }
      kept.add(earlier);
      changes.push(...compareFields(earlier, field, at(path, field.name)));
      changes.push(...compare(earlier.type, field.type, at(path, field.name)));
    }
    const gone = before.fields.filter((field) => !kept.has(field));
    return [...changes, ...gone.map((field) => removed(field, at(path, field.name)))];
  };

  const compareUnions = (before: SchemaNode, after: SchemaNode, path: string): readonly Change[] => {
    const pair = [optionalOf(before), optionalOf(after)] as const;
    if (pair[0] && pair[1]) return compare(pair[0], pair[1], path);
    if (!pair[0] && pair[1] && before.kind !== 'union') {
      return [madeNullable(path), ...compare(before, pair[1], path)];
    }
    if (pair[0] && !pair[1] && after.kind !== 'union') {
      return [madeRequired(path), ...compare(pair[0], after, path)];
    }
    const [lost, gained] = [
      missing(branchesOf(before), branchesOf(after)),
      missing(branchesOf(after), branchesOf(before)),
    ];
    return lost.length + gained.length === 0 ? [] : [unionChanged({ lost, gained }, path)];
  };

  return compare(older, newer, '');
};

/** A field by its name or, renamed, by one of the names it says it had. */
const earlierOf = (field: FieldNode, record: RecordNode): FieldNode | undefined =>
  record.fields.find(({ name }) => name === field.name) ??
  record.fields.find(({ name }) => field.aliases.includes(name));

/** What a union of null and one other type is otherwise. */
const optionalOf = (node: SchemaNode): SchemaNode | undefined => {
  if (node.kind !== 'union' || node.branches.length !== 2) return undefined;
  const others = node.branches.filter((branch) => !isNull(branch));
  return others.length === 1 ? others[0] : undefined;
};

const branchesOf = (node: SchemaNode): readonly string[] =>
  (node.kind === 'union' ? (node satisfies UnionNode).branches : [node]).map(describeNode);
const missing = (from: readonly string[], inside: readonly string[]): readonly string[] =>
  from.filter((branch) => !inside.includes(branch));

const added = (field: FieldNode, path: string): Change => ({
  path,
  kind: 'added',
  rule: field.default ? 'field-added' : 'added-without-default',
  what: field.default
    ? `added as ${describeNode(field.type)}, ${JSON.stringify(field.default.value)} where it is not written`
    : 'added without a default: events already written do not have it and could not be read any more',
  instead: field.default ? '' : 'give it a default, best as ["null", …] with "default": null',
  breaks: field.default ? [] : ['backward'],
});

const removed = (field: FieldNode, path: string): Change => ({
  path,
  kind: 'removed',
  rule: 'field-removed',
  what: field.default
    ? `removed: earlier versions would take ${JSON.stringify(field.default.value)} for what really happened`
    : 'removed: earlier versions cannot read an event without it',
  instead: `keep it, or ${replaceEvent}`,
  breaks: ['forward'],
});

const compareFields = (before: FieldNode, after: FieldNode, path: string): readonly Change[] => {
  const changes: Change[] = [...compareDocs(before, after, path)];
  if (before.name !== after.name) {
    changes.push({
      path,
      kind: 'changed',
      rule: 'field-renamed',
      what: `was called ${before.name}, which earlier versions still look for`,
      instead: addBeside,
      breaks: ['forward'],
    });
  }
  if (!isDeepStrictEqual(before.default, after.default)) changes.push(defaultChanged(before, after, path));
  return changes;
};

const defaultChanged = (before: FieldNode, after: FieldNode, path: string): Change => {
  const values = [before.default, after.default].map((value) =>
    value ? JSON.stringify(value.value) : 'none',
  );
  const changesMeaning = before.default !== undefined && after.default !== undefined;
  return {
    path,
    kind: 'changed',
    rule: 'default-changed',
    what: `the default ${values[0]} became ${values[1]}${changesMeaning ? ': events without the field would mean something else' : ''}`,
    instead: changesMeaning ? 'keep the default' : '',
    breaks: changesMeaning ? ['backward'] : [],
  };
};

const compareDocs = (
  before: { readonly doc: string | undefined },
  after: { readonly doc: string | undefined },
  path: string,
): readonly Change[] =>
  before.doc === after.doc
    ? []
    : [
        {
          path,
          kind: 'changed',
          rule: 'doc-changed',
          what: 'described differently',
          instead: '',
          breaks: [],
        },
      ];

/** What a wider type reads of a narrower one without loss of kind. */
const widerThan: Readonly<Record<string, readonly string[]>> = {
  int: ['long', 'float', 'double'],
  long: ['float', 'double'],
  float: ['double'],
};

const comparePrimitives = (before: PrimitiveNode, after: PrimitiveNode, path: string): readonly Change[] => {
  if (before.name === after.name && before.logicalType === after.logicalType) return [];
  const change = typeChanged(before, after, path);
  if (widerThan[before.name]?.includes(after.name)) return [{ ...change, breaks: ['forward'] }];
  if (widerThan[after.name]?.includes(before.name)) return [{ ...change, breaks: ['backward'] }];
  return [change];
};

const typeChanged = (before: SchemaNode, after: SchemaNode, path: string): Change => ({
  path,
  kind: 'changed',
  rule: 'type-changed',
  what: `${describeNode(before)} became ${describeNode(after)}`,
  instead: addBeside,
  breaks: both,
});

const madeNullable = (path: string): Change => ({
  path,
  kind: 'changed',
  rule: 'made-nullable',
  what: 'may be null now, which earlier versions cannot read',
  instead: addBeside,
  breaks: ['forward'],
});

const madeRequired = (path: string): Change => ({
  path,
  kind: 'changed',
  rule: 'made-required',
  what: 'may not be null any more, and in events already written it can be',
  instead: `keep ["null", …], or ${replaceEvent}`,
  breaks: ['backward'],
});

const unionChanged = (
  { lost, gained }: { readonly lost: readonly string[]; readonly gained: readonly string[] },
  path: string,
): Change => ({
  path,
  kind: 'changed',
  rule: 'union-changed',
  what: [
    ...(lost.length > 0 ? [`the union lost ${lost.join(', ')}`] : []),
    ...(gained.length > 0 ? [`the union gained ${gained.join(', ')}`] : []),
  ].join(' and '),
  instead: addBeside,
  breaks: [
    ...(lost.length > 0 ? (['backward'] as const) : []),
    ...(gained.length > 0 ? (['forward'] as const) : []),
  ],
});

const compareEnums = (before: EnumNode, after: EnumNode, path: string): readonly Change[] => {
  if (before.fullName !== after.fullName) return [typeChanged(before, after, path)];
  const [gone, fresh] = [missing(before.symbols, after.symbols), missing(after.symbols, before.symbols)];
  const changes: Change[] = [];
  if (gone.length > 0) {
    changes.push({
      path,
      kind: 'changed',
      rule: 'enum-symbol-removed',
      what: `${gone.join(', ')} ${fresh.length > 0 ? `gave way to ${fresh.join(', ')}` : 'is gone'}: events already written say ${gone.join(', ')}`,
      instead: 'keep every symbol there ever was, and add new ones at the end of an enum that has a default',
      breaks: ['backward'],
    });
  }
  if (fresh.length > 0) {
    changes.push({
      path,
      kind: 'changed',
      rule: 'enum-symbol-added',
      what: `${fresh.join(', ')} is new${before.default ? `; earlier versions take it for ${before.default}` : ', which earlier versions cannot read'}`,
      instead: before.default ? '' : `add a new optional field beside it, or ${replaceEvent}`,
      breaks: before.default ? [] : ['forward'],
    });
  }
  return changes;
};
