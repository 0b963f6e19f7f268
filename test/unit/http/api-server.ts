import { hash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { createKeyRing } from '../../../src/auth/api-keys.ts';
import { type Authenticate, createAuthenticator } from '../../../src/auth/authenticator.ts';
import type { CommandOutcome, CommandRequest } from '../../../src/commands/command.ts';
import type { Commands } from '../../../src/commands/commands.ts';
import type { Consistency } from '../../../src/consistency/consistency.ts';
import type { DeadLetterAdmin } from '../../../src/dlq-admin/dlq-admin.ts';
import type { Histories } from '../../../src/http/api-ports.ts';
import type { HttpObserver } from '../../../src/http/observe-requests.ts';
import type { RateLimits } from '../../../src/http/rate-limits.ts';
import type { Scrape } from '../../../src/http/routes/metrics.ts';
import { buildServer } from '../../../src/http/server.ts';
import type { LiveUpdates } from '../../../src/live/live-updates.ts';
import type { OutboxAdmin } from '../../../src/outbox-admin/outbox-admin.ts';
import type { ProjectionAdmin } from '../../../src/projection-admin/projection-admin.ts';
import type { Queries } from '../../../src/read-model/queries.ts';
import type { RelayAdmin } from '../../../src/relay-admin/relay-admin.ts';
import { createDocumentCheck, type OpenApiDocument, type Seen } from '../../support/openapi-document.ts';
import { silentLog } from '../../support/silent-log.ts';
import { goodDeadLetters } from './good-dead-letters.ts';
import { goodLive } from './good-live.ts';
import { goodOutbox } from './good-outbox.ts';
import { goodProjections } from './good-projections.ts';
import { goodHistories, goodQueries } from './good-queries.ts';
import { goodRelay } from './good-relay.ts';

export const keys = {
  operator: 'operator-key-of-the-specs',
  alice: 'key-of-alice',
  bob: 'key-of-bob',
} as const;
export type Who = keyof typeof keys;

export const authenticateByKey: Authenticate = createAuthenticator({
  findByKey: createKeyRing([
    { role: 'operator', sha256: hash('sha256', keys.operator) },
    { role: 'shopper', userId: 'alice', sha256: hash('sha256', keys.alice) },
    { role: 'shopper', userId: 'bob', sha256: hash('sha256', keys.bob) },
  ]),
});

export interface Call {
  readonly command: keyof Commands;
  readonly input: unknown;
  readonly request: CommandRequest;
}

type AnyOutcome = CommandOutcome<{ readonly version: number }>;

/** What a command would answer that does everything right. */
const goodAnswers: { readonly [Name in keyof Commands]: Awaited<ReturnType<Commands[Name]>> } = {
  registerProduct: accepted({ productId: 'p-1', version: 1 }),
  adjustStock: accepted({ productId: 'p-1', stock: 7, version: 4 }),
  recordProductView: accepted({ productId: 'p-1', version: 1 }),
  likeProduct: accepted({ productId: 'p-1', userId: 'alice', liked: true, version: 1 }),
  unlikeProduct: accepted({ productId: 'p-1', userId: 'alice', liked: false, version: 2 }),
  placeOrder: accepted({ orderId: 'o-1', status: 'created', totalMinor: 300, currency: 'EUR', version: 1 }),
  cancelOrder: accepted({ orderId: 'o-1', status: 'canceled', totalMinor: 300, currency: 'EUR', version: 2 }),
  createPayment: accepted({
    paymentId: 'pay-1',
    orderId: 'o-1',
    status: 'created',
    amountMinor: 300,
    currency: 'EUR',
    version: 1,
  }),
  confirmPayment: accepted({
    paymentId: 'pay-1',
    orderId: 'o-1',
    status: 'paid',
    amountMinor: 300,
    currency: 'EUR',
    version: 2,
  }),
  failPayment: accepted({
    paymentId: 'pay-1',
    orderId: 'o-1',
    status: 'failed',
    amountMinor: 300,
    currency: 'EUR',
    version: 2,
  }),
};

function accepted<Answer>(answer: Answer): CommandOutcome<Answer> {
  return { outcome: 'accepted', answer, replayed: false, consistencyToken: '1' };
}

export interface TestApiOptions {
  readonly log?: Logger;
  readonly authenticate?: Authenticate;
  readonly rateLimits?: Partial<RateLimits>;
  readonly requireIfMatch?: boolean;
  readonly bodyBytesMax?: number;
  readonly healthCheck?: () => Promise<void>;
  readonly scrape?: Scrape;
  readonly observer?: HttpObserver;
  readonly queries?: Partial<Queries>;
  readonly consistency?: Partial<Consistency>;
  readonly histories?: Partial<Histories>;
  readonly live?: Partial<LiveUpdates>;
  readonly outbox?: Partial<OutboxAdmin>;
  readonly relay?: Partial<RelayAdmin>;
  readonly projections?: Partial<ProjectionAdmin>;
  readonly deadLetters?: Partial<DeadLetterAdmin>;
}

export interface TestApi {
  readonly server: FastifyInstance;
  readonly document: OpenApiDocument;
  /** The commands that were reached, in order. */
  readonly calls: Call[];
  /** What the next commands answer instead of success. */
  answerWith(answer: (command: keyof Commands) => Promise<AnyOutcome>): void;
  send(request: TestRequest): Promise<TestAnswer>;
  close(): Promise<void>;
}

export interface TestRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH' | 'OPTIONS' | 'HEAD';
  readonly url: string;
  readonly as?: Who;
  readonly body?: unknown;
  /** Undefined takes a header out that would be there. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly remoteAddress?: string;
}

export interface TestAnswer extends Seen {
  readonly json: Record<string, unknown>;
}

let sent = 0;

/** A server over commands that only remember; every answer it gives is held against its own document. */
export const startTestApi = async (options: TestApiOptions = {}): Promise<TestApi> => {
  const calls: Call[] = [];
  let answer: ((command: keyof Commands) => Promise<AnyOutcome>) | undefined;
  const remember = (command: keyof Commands) => async (input: unknown, request: CommandRequest) => {
    calls.push({ command, input, request });
    return answer ? answer(command) : goodAnswers[command];
  };
  const commands = Object.fromEntries(
    (Object.keys(goodAnswers) as (keyof Commands)[]).map((name) => [name, remember(name)]),
  ) as unknown as Commands;

  let requests = 0;
  const server = buildServer({
    log: options.log ?? silentLog(),
    bodyBytesMax: options.bodyBytesMax ?? 64 * 1024,
    requestTimeoutMs: 1000,
    newRequestId: () => `request-${++requests}`,
    healthChecks: { database: options.healthCheck ?? (async () => {}) },
    scrape: options.scrape ?? (async () => ({ contentType: 'text/plain; version=0.0.4', text: 'up 1\n' })),
    observer: options.observer ?? { answered: () => {} },
    api: {
      commands,
      queries: { ...goodQueries, ...options.queries },
      consistency: { waitFor: async () => undefined, close: () => {}, ...options.consistency },
      histories: { ...goodHistories, ...options.histories },
      live: { ...goodLive, ...options.live },
      outbox: { ...goodOutbox, ...options.outbox },
      relay: { ...goodRelay, ...options.relay },
      projections: { ...goodProjections, ...options.projections },
      deadLetters: { ...goodDeadLetters, ...options.deadLetters },
      newCorrelationId: () => 'fresh-correlation-id',
      authenticate: options.authenticate ?? authenticateByKey,
      requireIfMatch: options.requireIfMatch ?? false,
      rateLimits: {
        commandsPerMinute: 0,
        likesAndViewsPerMinute: 0,
        failedLoginsPerMinute: 0,
        ...options.rateLimits,
      },
    },
  });
  const document = (await server.inject('/openapi.json')).json<OpenApiDocument>();
  const expectDocumented = createDocumentCheck(document);

  return {
    server,
    document,
    calls,
    answerWith: (next) => {
      answer = next;
    },
    send: async ({ method, url, as, body, headers = {}, remoteAddress }) => {
      const all = {
        ...(as && { authorization: `Bearer ${keys[as]}` }),
        ...(method !== 'GET' && { 'idempotency-key': `key-${++sent}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      };
      const response = await server.inject({
        method,
        url,
        headers: Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Record<
          string,
          string
        >,
        ...(remoteAddress !== undefined && { remoteAddress }),
        ...(body !== undefined && {
          payload: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
        }),
      });
      const seen = {
        method,
        url,
        statusCode: response.statusCode,
        headers: response.headers,
        body: response.body,
      };
      if (method !== 'HEAD') expectDocumented(seen);
      const isJson = String(response.headers['content-type']).includes('json');
      return {
        ...seen,
        json: isJson && response.body !== '' ? response.json<Record<string, unknown>>() : {},
      };
    },
    close: () => server.close(),
  };
};

export const problemName = ({ json }: TestAnswer): string =>
  String(json.type).replace('urn:millrace:problem:', '');
