import { kindOf, type ProblemName, problemTable, problemType } from '../problem.ts';

const names = Object.keys(problemTable) as ProblemName[];

const schemaName = (name: ProblemName): string => `problem.${name}`;
export const problemReference = (name: ProblemName) => ({ $ref: `#/components/schemas/${schemaName(name)}` });

const schemaOf = (name: ProblemName) => {
  const { title, status, members = {} } = kindOf(name);
  return {
    type: 'object' as const,
    title,
    required: ['type', 'title', 'status', ...Object.keys(members)],
    additionalProperties: false,
    properties: {
      type: { type: 'string' as const, const: problemType(name) },
      title: { type: 'string' as const, const: title },
      status: { type: 'integer' as const, const: status },
      detail: { type: 'string' as const },
      ...members,
    },
  };
};

/** One schema for every problem there is. */
export const problemSchemas = Object.fromEntries(names.map((name) => [schemaName(name), schemaOf(name)]));

/** The values that problems tell, as they might be. */
const memberExamples: Readonly<Record<string, unknown>> = {
  in: 'body',
  pointer: '/stock',
  currentVersion: 6,
  productId: 'mill-1',
  stock: 1,
  wanted: 3,
  due: { amountMinor: 1999, currency: 'EUR' },
  offered: 1000,
  firstId: 42,
  refused: [
    {
      reason: 'parked',
      letters: 1,
      examples: ['order-events@17'],
      projection: 'order-view',
      topic: 'order-events',
      key: 'o-1',
    },
  ],
};

export const problemExample = (name: ProblemName) => {
  const { title, status, members = {} } = kindOf(name);
  return {
    value: {
      type: problemType(name),
      title,
      status,
      ...Object.fromEntries(Object.keys(members).map((member) => [member, memberExamples[member]])),
    },
  };
};

/** A list and not a table: on the docs page a table's columns become too narrow to read. */
export const problemListText = names
  .toSorted((a, b) => kindOf(a).status - kindOf(b).status || a.localeCompare(b))
  .map((name) => `- **${kindOf(name).status}** \`${problemType(name)}\`: ${kindOf(name).title}`)
  .join('\n');
