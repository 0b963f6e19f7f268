import type { FastifySchemaValidationError } from 'fastify';
import { type Problem, type ProblemName, problem } from './problem.ts';

/** Which rule of a schema was broken says which mistake it was. */
const namesByRule = {
  type: 'wrong-type',
  required: 'field-missing',
  additionalProperties: 'unknown-field',
  maximum: 'number-too-large',
  minimum: 'number-too-small',
  pattern: 'text-not-allowed',
  minLength: 'text-not-allowed',
  maxLength: 'text-not-allowed',
  minItems: 'list-too-short',
  maxItems: 'list-too-long',
} as const satisfies Readonly<Record<string, ProblemName>>;

type Part = 'body' | 'params' | 'querystring' | 'headers';

/** Where several shapes are allowed, the first error is about the shape that was probably meant. */
export const problemOfValidation = (
  errors: readonly FastifySchemaValidationError[],
  context: string | undefined,
): Problem => {
  const part = (context ?? 'body') as Part;
  const [first] = errors;
  const name = nameOf(first);
  if (!first || !name) return problem('invalid-request', { in: part, pointer: '' });
  const pointer = `${first.instancePath}${fieldOf(first)}`;
  return problem(name, {
    in: part,
    pointer,
    detail: `${part}${pointer} ${first.message ?? 'is not allowed'}`,
  });
};

const nameOf = (error: FastifySchemaValidationError | undefined) =>
  error && error.keyword in namesByRule ? namesByRule[error.keyword as keyof typeof namesByRule] : undefined;

/** The field that is missing or too much, as a step of the pointer. */
const fieldOf = ({ params }: FastifySchemaValidationError): string => {
  const field = params.missingProperty ?? params.additionalProperty;
  return typeof field === 'string' ? `/${field.replaceAll('~', '~0').replaceAll('/', '~1')}` : '';
};
