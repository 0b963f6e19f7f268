import { Validator } from '@seriousme/openapi-schema-validator';
import { expect } from 'chai';
import type { FastifyInstance } from 'fastify';
import { parseIdempotencyKey, parseVersionTag } from '../../../src/http/header-values.ts';
import { problemTable } from '../../../src/http/problem.ts';
import { createDocumentCheck, type OpenApiDocument } from '../../support/openapi-document.ts';
import { operationsOf } from '../../support/openapi-fuzz.ts';
import { startTestApi, type TestApi } from './api-server.ts';

/** Every route that the server really has, from Fastify's own tree. */
const routesOf = (server: FastifyInstance): readonly string[] => {
  const steps: string[] = [];
  return server
    .printRoutes({ commonPrefix: false })
    .split('\n')
    .flatMap((line) => {
      const match = /^(?<indent>[│ ]*)[├└]── (?<step>\S*)(?: \((?<methods>[A-Z, ]+)\))?/.exec(line);
      if (!match?.groups) return [];
      const { indent = '', step = '', methods = '' } = match.groups;
      steps.length = indent.length / 4;
      steps.push(step);
      const path = steps.join('').replace(/:([A-Za-z]+)/g, '{$1}');
      return methods
        .split(', ')
        .filter((method) => method !== '')
        .map((method) => `${method} ${path}`);
    });
};

describe('OpenAPI document', () => {
  let api: TestApi;
  let document: OpenApiDocument;
  before(async () => {
    api = await startTestApi();
    document = api.document;
  });
  after(() => api.close());

  it('is valid', async () => {
    const result = await new Validator().validate(
      structuredClone(document) as unknown as Record<string, unknown>,
    );
    expect(result.errors).to.equal(undefined);
    expect(result.valid).to.equal(true);
  });

  it('would be found invalid if it were', async () => {
    const broken = structuredClone(document) as unknown as { paths: Record<string, unknown> };
    broken.paths['/broken'] = { get: { responses: 'none' } };
    expect((await new Validator().validate(broken)).valid).to.equal(false);
  });

  it('tells of every route and of no other', () => {
    const real = routesOf(api.server).filter(
      (route) => !route.startsWith('HEAD ') && !route.includes(' /docs'),
    );
    const documented = operationsOf(document).map(({ method, path }) => `${method} ${path}`);
    expect(real.toSorted()).to.deep.equal(documented.toSorted());
    expect(real).to.include('DELETE /v1/products/{productId}/likes/{userId}');
    expect(real).to.have.length(48);
  });

  it('says what each operation is, who may use it and what its errors are', () => {
    for (const operation of operationsOf(document)) {
      const { operationId, path, method, responses } = operation;
      const isAdmin = path.startsWith('/admin/');
      const isPublic = !isAdmin && !path.startsWith('/v1/') && path !== '/events';
      expect(operation, operationId).to.include.keys('summary', 'tags', 'operationId', 'security');
      expect(operation.security, operationId).to.have.length(isPublic ? 0 : 1);
      expect(responses).to.include.keys('500', '503');
      if (isPublic) continue;
      expect(responses).to.include.keys('400', '401', '429');
      if (isAdmin) expect(responses, operationId).to.include.keys('403');
      if (method === 'GET') continue;
      expect(responses).to.include.keys('413', '415');
      if (isAdmin) continue;
      expect(responses).to.include.keys('409', '422');
      const names = operation.parameters?.map(({ name }) => name);
      expect(names).to.include.members(['Idempotency-Key', 'X-Correlation-Id', 'traceparent']);
    }
    const ids = operationsOf(document).map(({ operationId }) => operationId);
    expect(new Set(ids).size).to.equal(ids.length);
  });

  it('has a schema for every problem', () => {
    const schemas = Object.keys(document.components.schemas);
    expect(schemas.toSorted()).to.deep.equal(
      Object.keys(problemTable)
        .map((name) => `problem.${name}`)
        .toSorted(),
    );
  });

  it('has the same idea of headers as the code that reads them', () => {
    const patterns = new Map(
      operationsOf(document)
        .flatMap(({ parameters = [] }) => parameters)
        .map(({ name, schema }) => [name, new RegExp(String(schema.pattern), 'u')]),
    );
    const samples = [
      'a',
      '"a"',
      '"',
      '""',
      'a b',
      'x'.repeat(255),
      'x'.repeat(256),
      '"5"',
      '"05"',
      '"0"',
      'W/"5"',
      '*',
      '5',
    ];
    for (const sample of samples) {
      const key = patterns.get('Idempotency-Key')?.test(sample);
      expect(key, sample).to.equal(parseIdempotencyKey(sample) !== undefined);
      const version = patterns.get('If-Match')?.test(sample);
      expect(version, sample).to.equal(parseVersionTag(sample) !== undefined);
    }
  });

  it('would not be satisfied with another answer', () => {
    const expectDocumented = createDocumentCheck(document);
    const good = {
      method: 'POST',
      url: '/v1/products/p-1/views',
      statusCode: 201,
      headers: { 'x-request-id': 'r', 'consistency-token': '1', 'content-type': 'application/json' },
      body: '{"productId":"p-1","version":1}',
    };
    expect(() => expectDocumented(good)).not.to.throw();
    expect(() => expectDocumented({ ...good, statusCode: 200 })).to.throw(/not documented/);
    expect(() => expectDocumented({ ...good, body: '{"productId":"p-1"}' })).to.throw(/not as documented/);
    expect(() =>
      expectDocumented({ ...good, headers: { ...good.headers, 'content-type': 'text/html' } }),
    ).to.throw(/not documented/);
    const { 'x-request-id': _, ...withoutId } = good.headers;
    expect(() => expectDocumented({ ...good, headers: withoutId })).to.throw(/x-request-id/);
    const problem = {
      ...good,
      statusCode: 404,
      headers: { 'x-request-id': 'r', 'content-type': 'application/problem+json' },
      body: JSON.stringify({
        type: 'urn:millrace:problem:order-unknown',
        title: 'There is no such order',
        status: 404,
      }),
    };
    expect(() => expectDocumented(problem)).to.throw(/not as documented/);
    const unheardOf = { ...problem, method: 'PATCH', body: '{"type":"urn:millrace:problem:new"}' };
    expect(() => expectDocumented(unheardOf)).to.throw(/not documented/);
  });
});

describe('docs page', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  it('loads nothing from anywhere else', async () => {
    expect((await api.server.inject('/docs')).headers.location).to.equal('/docs/');
    const page = await api.server.inject('/docs/');
    expect(page.statusCode).to.equal(200);
    expect(page.body).not.to.match(/https?:\/\//);
    expect(page.body).to.include('<script src="js/scalar.js">').and.to.include('"/openapi.json"');
    const script = await api.server.inject('/docs/js/scalar.js');
    expect(script.statusCode).to.equal(200);
    expect(script.body.length).to.be.greaterThan(1_000_000);
  });

  it('may run its own scripts and talk to this server only', async () => {
    const { headers, body } = await api.server.inject('/docs/');
    const policy = String(headers['content-security-policy']);
    expect(policy).to.match(/default-src 'none'; script-src 'self' 'sha256-[^']+'; /);
    expect(policy)
      .to.include("connect-src 'self'")
      .and.not.to.match(/https?:|\*|unsafe-eval/);
    expect(/script-src[^;]*unsafe-inline/.test(policy)).to.equal(false);
    expect(headers).to.include({ 'x-frame-options': 'SAMEORIGIN', 'x-content-type-options': 'nosniff' });

    const { createHash } = await import('node:crypto');
    const [, inline = ''] = /<script type="text\/javascript">([\s\S]+?)<\/script>/.exec(body) ?? [];
    expect(policy).to.include(createHash('sha256').update(inline).digest('base64'));
  });

  it('does not fail on a host that is none', async () => {
    for (const host of ['a b', '%', '[', 'x:y:z', '']) {
      const { statusCode } = await api.server.inject({ url: '/docs/', headers: { host } });
      expect(statusCode, host).to.be.oneOf([200, 400]);
    }
  });
});
