import { isConditional, type Operation, problemsOf } from '../operation.ts';
import { kindOf, type ProblemName } from '../problem.ts';
import { problemExample, problemReference } from './problem-schemas.ts';

interface ResponseObject {
  description: string;
  headers?: Record<string, unknown>;
  content?: Record<string, unknown>;
}

/** The part of an OpenAPI operation that is worked on here. */
export interface OperationObject {
  requestBody?: {
    required?: boolean;
    content: Record<string, { schema: { anyOf?: readonly { type?: string }[] } }>;
  };
  responses: Record<string, ResponseObject>;
}

const header = (description: string) => ({ description, required: true, schema: { type: 'string' } });
const requestId = { 'X-Request-Id': header('The id of this request in the logs') };

/** Adds what @fastify/swagger cannot know: the problems, the headers of answers, and that a body may be left out. */
export const documentOperation = (entry: OperationObject, operation: Operation): void => {
  const body = entry.requestBody;
  const schema = body?.content['application/json']?.schema;
  if (body && schema?.anyOf?.some(({ type }) => type === 'null')) body.required = false;

  for (const response of Object.values(entry.responses)) {
    response.description = 'Done';
    response.headers = { ...requestId, ...answerHeadersOf(operation) };
  }
  if (isConditional(operation)) {
    entry.responses[304] = {
      description: 'The client has this answer already',
      headers: { ...requestId, ...answerHeadersOf(operation) },
    };
  }
  const shape = JSON.stringify(schema ?? {});
  const problems = problemsOf(operation, {
    numbers: shape.includes('"integer"'),
    lists: shape.includes('"array"'),
  });
  for (const [status, names] of Map.groupBy(problems, (name) => kindOf(name).status)) {
    const existing = entry.responses[status];
    const problem = problemResponse(names);
    entry.responses[status] = existing
      ? { ...problem, content: { ...existing.content, ...problem.content }, headers: requestId }
      : problem;
  }
};

const answerHeadersOf = ({ answerHeaders = {}, command }: Operation) => ({
  ...Object.fromEntries(Object.entries(answerHeaders).map(([name, text]) => [name, header(text)])),
  ...(command && {
    'Consistency-Token': header('For queries that must show what this command did'),
    'Idempotent-Replayed': {
      description: 'There, and true, when an earlier request with the same key did it',
      schema: { type: 'string', const: 'true' },
    },
  }),
});

const problemResponse = (names: readonly ProblemName[]): ResponseObject => {
  const references = names.map(problemReference);
  return {
    description: names.map((name) => kindOf(name).title).join(' · '),
    headers: { ...requestId, ...problemHeadersOf(names) },
    content: {
      'application/problem+json': {
        schema: references.length === 1 ? references[0] : { oneOf: references },
        examples: Object.fromEntries(names.map((name) => [name, problemExample(name)])),
      },
    },
  };
};

/** Which headers come with every problem of a status. */
const problemHeadersOf = (names: readonly ProblemName[]) => {
  const status = kindOf(names[0] ?? 'internal').status;
  const common = names.every((name) => kindOf(name).headers?.['retry-after'] !== undefined);
  return {
    ...(status === 401 && { 'WWW-Authenticate': header('Which credentials are meant') }),
    ...((status === 429 || common) && { 'Retry-After': header('Seconds to wait') }),
  };
};
