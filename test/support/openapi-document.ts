import { expect } from 'chai';
import Schema from 'typebox/schema';

/** The parts of an OpenAPI document that the tests read. */
export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}
export type JsonSchema = Readonly<Record<string, unknown>>;
export interface OpenApiParameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly schema: JsonSchema;
}
export interface OpenApiOperation {
  readonly operationId: string;
  readonly security: readonly unknown[];
  readonly parameters?: readonly OpenApiParameter[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Record<string, { schema: JsonSchema }>>;
  };
  readonly responses: Readonly<Record<string, OpenApiResponse>>;
}
interface OpenApiResponse {
  readonly headers?: Readonly<Record<string, { readonly required?: boolean }>>;
  readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>;
}

/** An answer together with what was asked, however it travelled. */
export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

export const problemMediaType = 'application/problem+json';
const problemPrefix = 'urn:millrace:problem:';

export const operationAt = (
  document: OpenApiDocument,
  { method, url }: { method: string; url: string },
): OpenApiOperation | undefined => {
  const steps = url.split('?', 1)[0]?.split('/') ?? [];
  const paths = Object.keys(document.paths).filter((pattern) => {
    const expected = pattern.split('/');
    return (
      expected.length === steps.length &&
      expected.every((step, index) => step.startsWith('{') || step === steps[index])
    );
  });
  // A path that says it literally goes before one with a parameter in the same place.
  const path = paths.find((pattern) => !pattern.includes('{')) ?? paths[0];
  return path === undefined ? undefined : document.paths[path]?.[method.toLowerCase()];
};

/** Whether a value is what a schema of the document describes. */
export const createSchemaCheck = (document: OpenApiDocument) => {
  const compiled = new Map<JsonSchema, ReturnType<typeof Schema.Compile>>();
  return (schema: JsonSchema, value: unknown): boolean => {
    const check = compiled.get(schema) ?? Schema.Compile({ ...schema, components: document.components });
    compiled.set(schema, check);
    return check.Check(value);
  };
};

/** Fails when an answer is not what the document says for that operation and status. */
export const createDocumentCheck = (document: OpenApiDocument) => {
  const isAllowed = createSchemaCheck(document);
  return (seen: Seen): void => {
    const what = `${seen.method} ${seen.url.slice(0, 200)} → ${seen.statusCode} ${seen.body.slice(0, 400)}`;
    expect(seen.headers, what).to.have.property('x-request-id').that.is.a('string').and.is.not.empty;
    const operation = operationAt(document, seen);
    const mediaType = String(seen.headers['content-type']).split(';')[0] ?? '';
    if (seen.statusCode >= 400 && mediaType !== problemMediaType) {
      expect(operation?.responses[seen.statusCode]?.content, what).to.have.property(mediaType);
    }
    if (!operation) {
      expectKnownProblem(document, seen, what);
      return;
    }
    const response = operation.responses[seen.statusCode];
    if (!response) throw new Error(`The status is not documented: ${what}`);
    for (const [name, { required }] of Object.entries(response.headers ?? {})) {
      if (required) expect(seen.headers, `${name} of ${what}`).to.have.property(name.toLowerCase());
    }
    if (!response.content) {
      expect(seen.body, what).to.equal('');
      return;
    }
    const schema = response.content[mediaType]?.schema;
    if (!schema) throw new Error(`The content type ${mediaType} is not documented: ${what}`);
    const body = mediaType.startsWith('text/') ? seen.body : JSON.parse(seen.body);
    if (!isAllowed(schema, body)) throw new Error(`The body is not as documented: ${what}`);
  };

  /** Paths and methods that do not exist have no operation, but their problems are documented all the same. */
  function expectKnownProblem(known: OpenApiDocument, { body, statusCode }: Seen, what: string): void {
    const problem = JSON.parse(body) as { type: string; status: number };
    const schema = known.components.schemas[`problem.${problem.type.slice(problemPrefix.length)}`];
    if (!schema || !isAllowed(schema, problem)) throw new Error(`The problem is not documented: ${what}`);
    expect(problem.status, what).to.equal(statusCode);
  }
};
