import { type Finding, finding } from './finding.ts';
import {
  describeNode,
  isNull,
  type NamedNode,
  namespaceOf,
  type RecordNode,
  type SchemaNode,
  shortNameOf,
  type UnionNode,
} from './schema-model.ts';
import { isZeroWidth, type Place, placesIn } from './walk-schema.ts';

type Complaint = Pick<Finding, 'path' | 'rule' | 'what' | 'instead'>;
type Rule = (place: Place) => readonly Complaint[];

/** What no schema may contain, whatever was released before: each of these has hurt somebody. */
export const brokenRules = (record: RecordNode): readonly Finding[] =>
  placesIn(record).flatMap((place) =>
    rules.flatMap((rule) =>
      rule(place).map((complaint) => finding({ schema: record.fullName, ...complaint })),
    ),
  );

const isNamed = (node: SchemaNode): node is NamedNode => 'fullName' in node;

const docs: Rule = ({ node, path, field, isWholeField }) => {
  const complaints: Complaint[] = [];
  const missing = (of: string): Complaint => ({
    path,
    rule: 'doc-missing',
    what: `${of} has no doc`,
    instead: 'say in one sentence what it means, in which unit, and when it is missing',
  });
  if (isNamed(node) && !node.doc?.trim()) complaints.push(missing(`the ${node.kind} ${node.fullName}`));
  if (isWholeField && field && !field.doc?.trim()) complaints.push(missing('the field'));
  return complaints;
};

const names: Rule = ({ node, path, field, isWholeField }) => {
  const complaints: Complaint[] = [];
  const wrong = (what: string, instead: string): void =>
    void complaints.push({ path, rule: 'name', what, instead });
  if (isWholeField && field && !/^[a-z][a-zA-Z0-9]*$/.test(field.name)) {
    wrong(`the field is called ${field.name}`, 'write it in lowerCamelCase, from letters and digits');
  }
  if (isNamed(node) && !/^[A-Z][a-zA-Z0-9]*$/.test(shortNameOf(node.fullName))) {
    wrong(
      `the ${node.kind} is called ${shortNameOf(node.fullName)}`,
      'write it in PascalCase, from letters and digits',
    );
  }
  if (node.kind === 'enum') {
    for (const symbol of node.symbols.filter((text) => !/^[A-Z][A-Z0-9_]*$/.test(text))) {
      wrong(`the symbol ${symbol}`, 'write symbols in UPPER_SNAKE_CASE');
    }
  }
  return complaints;
};

const namespaces: Rule = ({ node, path }) =>
  isNamed(node) && !/^loopers(\.[a-z]+)?$/.test(namespaceOf(node.fullName))
    ? [
        {
          path,
          rule: 'namespace',
          what: `${node.fullName} is outside the namespaces of this system`,
          instead: 'put it into loopers.<domain>; readers and writers find each other by the full name',
        },
      ]
    : [];

const zeroWidthItems: Rule = ({ node, path }) => {
  const item = node.kind === 'array' ? node.items : node.kind === 'map' ? node.values : undefined;
  if (!item || !isZeroWidth(item)) return [];
  return [
    {
      path,
      rule: 'zero-width-items',
      what: `${describeNode(node)}: its items take no bytes, so five bytes can promise 50 million of them`,
      instead: 'give the item a field with content, or write how many there are as a long',
    },
  ];
};

const unions: Rule = ({ node, path, field, isWholeField }) => {
  if (node.kind !== 'union') return [];
  const shape = unionShape(node);
  if (shape === 'other') {
    return [
      {
        path,
        rule: 'union-shape',
        what: `${describeNode(node)}: what a union of several types decodes to depends on the reader's settings`,
        instead:
          'use ["null", type] and nothing else; for alternatives give each its own optional field or event',
      },
    ];
  }
  if (!isWholeField || !field) return [];
  if (shape === 'null last') {
    return [
      {
        path,
        rule: 'null-not-first',
        what: 'null is the second type of the union, so it cannot be the default',
        instead: 'write ["null", type] with "default": null',
      },
    ];
  }
  if (field.default && field.default.value === null) return [];
  return [
    {
      path,
      rule: 'nullable-without-default',
      what: field.default
        ? 'the default of a field that may be null is not null'
        : 'a field that may be null has no default',
      instead: 'add "default": null',
    },
  ];
};

const unionShape = ({ branches }: UnionNode): 'null first' | 'null last' | 'other' => {
  if (branches.length !== 2 || branches.filter(isNull).length !== 1) return 'other';
  return branches.findIndex(isNull) === 0 ? 'null first' : 'null last';
};

const enumDefaults: Rule = ({ node, path }) =>
  node.kind === 'enum' && node.default === undefined
    ? [
        {
          path,
          rule: 'enum-without-default',
          what: `${node.fullName} has no default, so no symbol can ever be added`,
          instead: 'add a symbol such as UNKNOWN and make it the default of the enum',
        },
      ]
    : [];

const soundsLikeMoney = (path: string): boolean =>
  /(minor|amount|price|total|cost|fee|tax|discount|balance|refund)s?$/i.test(
    path.replace(/(\[\]|\{\})+$/, ''),
  );

const exactNumbers: Rule = ({ node, path, field }) => {
  const isFloat = node.kind === 'primitive' && (node.name === 'float' || node.name === 'double');
  const isDecimal = 'logicalType' in node && node.logicalType === 'decimal';
  const isMoney = field !== undefined && soundsLikeMoney(path);
  if (
    isMoney &&
    (isFloat || isDecimal || (node.kind === 'primitive' && !['long', 'null'].includes(node.name)))
  ) {
    return [
      {
        path,
        rule: 'money-type',
        what: `money as ${describeNode(node)}${isFloat ? ', which cannot hold 0.10 exactly' : ''}`,
        instead: 'write a long of minor units called …Minor, or the record loopers.money.Money',
      },
    ];
  }
  if (!isFloat && !isDecimal) return [];
  return [
    {
      path,
      rule: 'inexact-number',
      what: isFloat
        ? `${describeNode(node)}: sums of it depend on their order, so two projections can differ`
        : `${describeNode(node)} decodes to bytes that every reader has to interpret`,
      instead: 'write a long in a smaller unit and put the unit into the name',
    },
  ];
};

const rules: readonly Rule[] = [docs, names, namespaces, zeroWidthItems, unions, enumDefaults, exactNumbers];

/** `loopers.order.paid.v1` is `loopers.order.OrderPaidV1`: one follows from the other. */
export const recordNameFor = (eventType: string): string => {
  const [company, domain = '', action = '', version = ''] = eventType.split('.');
  const pascal = (text: string): string =>
    text
      .split('-')
      .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
      .join('');
  return `${company}.${domain}.${pascal(domain)}${pascal(action)}${pascal(version)}`;
};
