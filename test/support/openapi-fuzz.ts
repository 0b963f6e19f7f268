import fc from 'fast-check';
import {
  createSchemaCheck,
  type JsonSchema,
  type OpenApiDocument,
  type OpenApiOperation,
  type OpenApiParameter,
} from './openapi-document.ts';

/** A request as it goes out: the body as bytes, because not every body is JSON, nor text. */
export interface FuzzRequest {
  readonly operationId: string;
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
}

export interface FuzzOptions {
  /** Credentials that are good. */
  readonly authorization: string;
  /** Ids that exist, so that some requests get further than "unknown". */
  readonly knownIds?: readonly string[];
}

interface Operation extends OpenApiOperation {
  readonly method: string;
  readonly path: string;
}

export const operationsOf = (document: OpenApiDocument): readonly Operation[] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
    })),
  );

/** Requests that the document calls right. */
export const validRequest = (operation: Operation, options: FuzzOptions): fc.Arbitrary<FuzzRequest> => {
  const { parameters = [], requestBody } = operation;
  const schema = requestBody?.content['application/json']?.schema;
  const content = schema ? fromSchema(schema).map((value) => Buffer.from(JSON.stringify(value))) : undefined;
  const body: fc.Arbitrary<Buffer | undefined> = !content
    ? fc.constant(undefined)
    : requestBody?.required
      ? content
      : fc.option(content, { nil: undefined });
  return fc
    .record({
      path: fc.record(valuesOf(parameters, 'path', options.knownIds)),
      query: fc.record(valuesOf(parameters, 'query'), { requiredKeys: [] }),
      headers: fc.record(valuesOf(parameters, 'header'), { requiredKeys: requiredOf(parameters) }),
      body,
    })
    .map(({ path, query, headers, body: bytes }) => ({
      operationId: operation.operationId,
      method: operation.method,
      url: `${fillPath(operation.path, path)}${queryText(query)}`,
      headers: {
        authorization: options.authorization,
        ...(bytes && { 'content-type': 'application/json' }),
        ...lowerCaseNames(headers),
      },
      body: bytes,
    }));
};

/** A right request with one to three things wrong in it; sometimes what is changed happens to be right again. */
export const mutatedRequest = (operation: Operation, options: FuzzOptions): fc.Arbitrary<FuzzRequest> =>
  fc
    .tuple(validRequest(operation, options), fc.array(mutation, { minLength: 1, maxLength: 3 }))
    .map(([request, mutations]) => mutations.reduce((changed, mutate) => mutate(changed), request));

/** Whether the document says that this request is right, as far as a document can. */
export const createConformanceCheck = (document: OpenApiDocument, options: FuzzOptions) => {
  const isAllowed = createSchemaCheck(document);
  const operations = new Map(operationsOf(document).map((operation) => [operation.operationId, operation]));
  return ({ operationId, url, headers, body }: FuzzRequest): boolean => {
    const operation = operations.get(operationId);
    if (!operation) return false;
    if (operation.security.length > 0 && headers.authorization !== options.authorization) return false;
    const [path = '', ...query] = url.split('?');
    const steps = path.split('/');
    const pathIsRight = operation.path.split('/').every((step, index) => {
      if (!step.startsWith('{')) return step === steps[index];
      const parameter = operation.parameters?.find(({ name }) => name === step.slice(1, -1));
      return parameter !== undefined && isAllowed(parameter.schema, decoded(steps[index] ?? ''));
    });
    const headersAreRight = (operation.parameters ?? [])
      // Those that cannot be used are replaced, which the document says.
      .filter(
        ({ name, in: place }) => place === 'header' && !['X-Correlation-Id', 'traceparent'].includes(name),
      )
      .every(({ name, required, schema }) => {
        const value = headers[name.toLowerCase()];
        return value === undefined ? !required : isAllowed(schema, value);
      });
    const unknownCondition =
      operation.method !== 'GET' &&
      'if-match' in headers &&
      !operation.parameters?.some(({ name }) => name === 'If-Match');
    return (
      pathIsRight &&
      queryIsRight(operation, query) &&
      headersAreRight &&
      !unknownCondition &&
      steps.length === operation.path.split('/').length &&
      bodyIsRight(operation, headers, body)
    );
  };

  function queryIsRight({ parameters = [] }: Operation, query: readonly string[]): boolean {
    if (query.length === 0) return true;
    const given = query.join('?').split('&').map(decodedField);
    const schemas = new Map(
      parameters.filter(({ in: place }) => place === 'query').map(({ name, schema }) => [name, schema]),
    );
    return (
      new Set(given.map(([name]) => name)).size === given.length &&
      given.every(([name, value]) => {
        const schema = schemas.get(name);
        return schema !== undefined && isAllowed(schema, value);
      })
    );
  }

  function bodyIsRight(
    { requestBody, method }: Operation,
    headers: Readonly<Record<string, string>>,
    body: Buffer | undefined,
  ): boolean {
    // Nobody reads the body of a GET.
    if (method === 'GET') return true;
    if (body === undefined || body.length === 0) {
      return requestBody?.required !== true && isJson(headers['content-type'] ?? 'application/json');
    }
    if (!requestBody || !isJson(headers['content-type'])) return false;
    const schema = requestBody.content['application/json']?.schema;
    const value = parsed(body);
    return schema !== undefined && value !== undefined && isAllowed(schema, value.json);
  }
};

const isJson = (type: string | undefined): boolean => type?.split(';')[0] === 'application/json';

const decoded = (step: string): string => {
  try {
    return decodeURIComponent(step);
  } catch {
    return '/';
  }
};

/** A text with an escape that is none is taken as it came, whole: that is how the server reads it. */
const decodedField = (field: string): readonly [string, string] => {
  const [name = '', ...value] = field.split('=');
  return [decodedWhole(name), decodedWhole(value.join('='))];
};

const decodedWhole = (text: string): string => {
  const spaced = text.replaceAll('+', ' ');
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
};

const parsed = (body: Buffer): { json: unknown } | undefined => {
  try {
    return { json: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)) };
  } catch {
    return undefined;
  }
};

/** Made by the server: nobody can make one up. */
const givenOut = new Set(['cursor']);

const valuesOf = (
  parameters: readonly OpenApiParameter[],
  place: OpenApiParameter['in'],
  known: readonly string[] = [],
): Record<string, fc.Arbitrary<unknown>> =>
  Object.fromEntries(
    parameters
      .filter((parameter) => parameter.in === place && !givenOut.has(parameter.name))
      .map(({ name, schema }) => [
        name,
        known.length > 0 ? fc.oneof(fromSchema(schema), fc.constantFrom(...known)) : fromSchema(schema),
      ]),
  );

const requiredOf = (parameters: readonly OpenApiParameter[]): string[] =>
  parameters.filter(({ in: place, required }) => place === 'header' && required).map(({ name }) => name);

const fillPath = (path: string, values: Readonly<Record<string, unknown>>): string =>
  path.replace(/\{([^}]+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));

const queryText = (values: Readonly<Record<string, unknown>>): string => {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) given.append(name, String(value));
  return given.size === 0 ? '' : `?${given}`;
};

const lowerCaseNames = (headers: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)]));

/** Values of a JSON schema, as far as the document uses it. */
const fromSchema = (schema: JsonSchema): fc.Arbitrary<unknown> => {
  const { type, anyOf, minimum, maximum, pattern, minLength, maxLength, minItems, maxItems } = schema as {
    type?: string;
    anyOf?: readonly JsonSchema[];
    minimum?: number;
    maximum?: number;
    pattern?: string;
    minLength?: number;
    maxLength?: number;
    minItems?: number;
    maxItems?: number;
  };
  if (anyOf) return fc.oneof(...anyOf.map(fromSchema));
  // In the document a constant is a choice of one.
  if (Array.isArray(schema.enum)) return fc.constantFrom(...(schema.enum as readonly unknown[]));
  switch (type) {
    case 'null':
      return fc.constant(null);
    case 'boolean':
      return fc.boolean();
    case 'integer':
      return fc.maxSafeInteger().map((value) => {
        const low = minimum ?? Number.MIN_SAFE_INTEGER;
        const high = maximum ?? Number.MAX_SAFE_INTEGER;
        return value >= low && value <= high
          ? value
          : Number(BigInt(low) + (BigInt(Math.abs(value)) % (BigInt(high) - BigInt(low) + 1n)));
      });
    case 'string':
      if (schema.format === 'date-time') return anyTime;
      return textOf({ pattern, minLength, maxLength });
    case 'array':
      return fc.array(fromSchema(schema.items as JsonSchema), {
        minLength: minItems ?? 0,
        maxLength: maxItems ?? 10,
        size: 'medium',
      });
    case 'object': {
      const properties = (schema.properties ?? {}) as Readonly<Record<string, JsonSchema>>;
      return fc.record(
        Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, fromSchema(inner)])),
        { requiredKeys: (schema.required ?? []) as string[] },
      );
    }
    default:
      throw new Error(`The fuzzer cannot make values of ${JSON.stringify(schema)}`);
  }
};

const anyTime = fc
  .date({ min: new Date('0001-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true })
  .map((time) => time.toISOString());

const textOf = (rules: {
  pattern: string | undefined;
  minLength: number | undefined;
  maxLength: number | undefined;
}): fc.Arbitrary<string> => {
  const { pattern, minLength = 0, maxLength = 100 } = rules;
  // fast-check makes texts from patterns, but not from those with character properties.
  if (pattern !== undefined && !pattern.includes('\\p')) return fc.stringMatching(new RegExp(pattern));
  const allowed = new RegExp(pattern ?? '', 'u');
  return fc.string({ unit: 'binary', minLength, maxLength }).filter((text) => allowed.test(text));
};

const changedBytesMax = 10_000;

type Mutation = (request: FuzzRequest) => FuzzRequest;

const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);

const junk = (): fc.Arbitrary<unknown> =>
  fc.oneof(
    fc.constantFrom<unknown>(
      null,
      true,
      '',
      '5',
      0,
      -1,
      0.5,
      1e21,
      2 ** 53,
      -(2 ** 53),
      Number.MAX_VALUE,
      [],
      {},
      '\u0000',
      'a\u0000b',
      '\ud800',
      '😀',
      '../..',
      "'; drop table outbox; --",
      '__proto__',
      'x'.repeat(300),
      [[]],
      { toString: 1 },
    ),
    fc.jsonValue({ maxDepth: 3 }),
    fc.integer({ min: 101, max: 12_000 }).map((length) => Array.from({ length }, () => 0)),
    fc.integer({ min: 10, max: 500 }).map((depth) => JSON.parse(nested(depth)) as unknown),
  );

/** Puts a value somewhere into the JSON of the body, wherever the numbers lead. */
const changeField =
  (steps: readonly number[], change: (holder: Record<string, unknown>, key: string) => void): Mutation =>
  (request) => {
    // Large enough; and JSON that is nested too deeply can be read but not written.
    if (request.body && request.body.length > changedBytesMax) return request;
    const value = request.body && parsed(request.body);
    if (!value || typeof value.json !== 'object' || value.json === null) return request;
    let holder = value.json as Record<string, unknown>;
    for (const step of steps) {
      const inner = Object.values(holder).filter((entry) => typeof entry === 'object' && entry !== null);
      if (inner.length === 0 || step % 2 === 0) break;
      holder = inner[step % inner.length] as Record<string, unknown>;
    }
    const keys = Object.keys(holder);
    change(holder, keys[(steps[0] ?? 0) % Math.max(1, keys.length)] ?? 'extra');
    return { ...request, body: Buffer.from(JSON.stringify(value.json)) };
  };

const steps = fc.array(fc.nat({ max: 20 }), { minLength: 1, maxLength: 3 });
const withHeader =
  (name: string, value: string): Mutation =>
  (request) => ({
    ...request,
    headers: { ...request.headers, [name]: value },
  });
const withoutHeader =
  (name: string): Mutation =>
  (request) => {
    const { [name]: _, ...headers } = request.headers;
    return { ...request, headers };
  };
/** What can be sent in a header at all; no blanks at the ends, which HTTP takes away. */
const headerText = fc
  .string({
    unit: fc
      .integer({ min: 0x20, max: 0xff })
      .filter((code) => code !== 0x7f)
      .map((code) => String.fromCharCode(code)),
    minLength: 1,
    maxLength: 300,
  })
  .map((text) => text.trim())
  .filter((text) => text !== '');
const headerName = fc.constantFrom(
  'idempotency-key',
  'if-match',
  'authorization',
  'x-correlation-id',
  'traceparent',
);
const withRawBody =
  (body: Buffer): Mutation =>
  (request) =>
    request.method === 'GET'
      ? request
      : { ...request, body, headers: { 'content-type': 'application/json', ...request.headers } };

const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.integer({ min: 6000, max: 30_000 }).map((depth) => withRawBody(Buffer.from(nested(depth)))),
  },
  {
    weight: 6,
    arbitrary: fc.tuple(steps, junk()).map(([at, value]) =>
      changeField(at, (holder, key) => {
        holder[key] = value;
      }),
    ),
  },
  {
    weight: 2,
    arbitrary: steps.map((at) =>
      changeField(at, (holder, key) => {
        delete holder[key];
      }),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(steps, fc.string(), junk()).map(([at, name, value]) =>
      changeField(at, (holder) => {
        holder[name] = value;
      }),
    ),
  },
  { weight: 2, arbitrary: junk().map((value) => withRawBody(Buffer.from(JSON.stringify(value)))) },
  {
    weight: 1,
    arbitrary: fc
      .uint8Array({ minLength: 1, maxLength: 200 })
      .map((bytes) => withRawBody(Buffer.from(bytes))),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom('{', '{"a":', '[1,]', 'nul', '{"a":1}}', '{"__proto__":{"x":1}}', '1e999', '"\\ud800"')
      .map((text) => withRawBody(Buffer.from(text))),
  },
  {
    weight: 1,
    arbitrary: fc.nat({ max: 50 }).map(
      (cut): Mutation =>
        (request) =>
          request.body ? { ...request, body: request.body.subarray(0, cut) } : request,
    ),
  },
  { weight: 2, arbitrary: fc.tuple(headerName, headerText).map(([name, value]) => withHeader(name, value)) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom('"5"', 'W/"5"', '*', '"1", "2"', '5', '"-1"', '"05"', '"99999999999999999999"')
      .map((tag) => withHeader('if-match', tag)),
  },
  { weight: 1, arbitrary: headerName.map(withoutHeader) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(
        'text/plain',
        'application/xml',
        'multipart/form-data',
        'application/jsonp',
        'a',
        'application/json; charset=utf-8',
      )
      .map(
        (type): Mutation =>
          (request) =>
            request.body ? withHeader('content-type', type)(request) : request,
      ),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom('%00', '%zz', 'a/b', 'x'.repeat(500), '%F0%9F%98%80', '%E0%A4%A', ':id', '*')
      .map(
        (step): Mutation =>
          (request) => {
            const parts = request.url.split('/');
            return parts.length > 3
              ? { ...request, url: [...parts.slice(0, 3), step, ...parts.slice(4)].join('/') }
              : request;
          },
      ),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom('?a=1', '?__proto__=1', '?%zz', '?a[]=1&a[]=2').map(
      (query): Mutation =>
        (request) => ({ ...request, url: `${request.url}${query}` }),
    ),
  },
);
