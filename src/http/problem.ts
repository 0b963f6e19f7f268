import { type Static, type TSchema, Type } from 'typebox';
import { Refusals, skipRefusalMembers } from './admin-dead-letter-schemas.ts';
import { AmountSchema, IdSchema, LargeInteger } from './schemas.ts';

interface ProblemKind {
  readonly status: number;
  readonly title: string;
  /** What it tells besides type, title, status and detail. */
  readonly members?: Readonly<Record<string, TSchema>>;
  readonly headers?: Readonly<Record<string, string>>;
}

const soon = { 'retry-after': '1' };
const challenge = { 'www-authenticate': 'Bearer realm="millrace"' };

/** Where in the request the mistake is. */
const place = {
  in: Type.Union(
    [Type.Literal('body'), Type.Literal('params'), Type.Literal('querystring'), Type.Literal('headers')],
    {
      description: 'The part of the request',
    },
  ),
  pointer: Type.String({ description: 'JSON pointer into that part; empty is the whole of it' }),
};

/**
 * Every error a client can get. The names are part of the API: clients tell errors apart by them.
 * The OpenAPI document is made from this table.
 */
export const problemTable = {
  // What was sent
  'malformed-json': { status: 400, title: 'The body is not JSON in UTF-8' },
  'wrong-type': { status: 400, title: 'A value has the wrong type', members: place },
  'field-missing': { status: 400, title: 'A field is missing', members: place },
  'unknown-field': { status: 400, title: 'A field is not known here', members: place },
  'number-too-large': { status: 400, title: 'A number is larger than allowed', members: place },
  'number-too-small': { status: 400, title: 'A number is smaller than allowed', members: place },
  'text-not-allowed': {
    status: 400,
    title: 'A text is too short, too long or has characters it must not have',
    members: place,
  },
  'list-too-short': { status: 400, title: 'A list has too few entries', members: place },
  'list-too-long': { status: 400, title: 'A list has too many entries', members: place },
  'invalid-request': { status: 400, title: 'The request is not what this path takes', members: place },
  'malformed-url': { status: 400, title: 'The URL or the host cannot be read' },
  'malformed-http': { status: 400, title: 'This is not HTTP' },
  'idempotency-key-missing': { status: 400, title: 'A command needs an Idempotency-Key' },
  'idempotency-key-invalid': {
    status: 400,
    title: 'An Idempotency-Key is 1 to 255 visible ASCII characters, with or without quotes around it',
  },
  'if-match-invalid': { status: 400, title: 'If-Match takes one version in quotes, such as "5"' },
  'if-match-not-applicable': { status: 400, title: 'This path changes nothing that has a version yet' },
  'cursor-invalid': { status: 400, title: 'This cursor is not of this list in this order' },
  'consistency-token-invalid': { status: 400, title: 'No command has answered with this Consistency-Token' },
  'not-found': { status: 404, title: 'There is nothing at this path' },
  'method-not-allowed': { status: 405, title: 'This path does not take this method' },
  'request-timeout': { status: 408, title: 'The request did not arrive in time' },
  'body-too-large': { status: 413, title: 'The body is too large' },
  'url-too-long': { status: 414, title: 'The URL is too long' },
  'unsupported-media-type': { status: 415, title: 'The body must be application/json' },
  'headers-too-large': { status: 431, title: 'The headers are too large' },

  // Who sent it
  unauthenticated: { status: 401, title: 'Valid credentials are needed', headers: challenge },
  'role-insufficient': { status: 403, title: 'Only an operator may do this' },
  'not-yours': { status: 403, title: 'This belongs to somebody else' },
  'rate-limited': { status: 429, title: 'Too many requests; wait as long as Retry-After says' },
  'too-many-failed-logins': {
    status: 429,
    title: 'Too many wrong credentials from this address; wait as long as Retry-After says',
  },

  'too-many-streams': {
    status: 429,
    title: 'You have as many streams of events open as one caller may',
    headers: soon,
  },
  'streams-full': {
    status: 503,
    title: 'This process has as many streams of events open as it may; try again, or another',
    headers: soon,
  },

  // What is known already
  'idempotency-key-in-flight': {
    status: 409,
    title: 'The first request with this Idempotency-Key is not answered yet',
    headers: soon,
  },
  'idempotency-key-reused': { status: 422, title: 'This Idempotency-Key was used for another request' },
  'version-differs': {
    status: 412,
    title: 'It has changed since the version in If-Match',
    members: { currentVersion: LargeInteger },
  },
  'if-match-required': { status: 428, title: 'Say with If-Match which version you saw' },

  // What operators ask for
  'not-possible-now': { status: 409, title: 'It cannot be done as things are; the detail says what to do' },

  // Products
  'product-unknown': { status: 404, title: 'There is no such product' },
  'product-already-registered': {
    status: 409,
    title: 'This product is registered already',
    members: { productId: IdSchema },
  },
  'stock-insufficient': {
    status: 409,
    title: 'There is not enough in stock',
    members: { productId: IdSchema, stock: LargeInteger, wanted: LargeInteger },
  },
  'stock-too-large': {
    status: 409,
    title: 'So much does not fit into a stock',
    members: { productId: IdSchema },
  },
  'statistic-unknown': { status: 404, title: 'There is no statistic of this product' },

  // Orders
  'order-unknown': { status: 404, title: 'There is no such order' },
  'receipt-unknown': { status: 404, title: 'No order of this id has been paid' },
  'order-unknown-then': { status: 404, title: 'There was no such order then, or no such version of it yet' },
  'order-already-placed': { status: 409, title: 'This order is placed already' },
  'order-empty': { status: 422, title: 'An order needs at least one item' },
  'order-item-repeated': {
    status: 422,
    title: 'An order names each product once',
    members: { productId: IdSchema },
  },
  'order-currencies-differ': { status: 422, title: 'The products of one order must have one currency' },
  'order-total-too-large': { status: 422, title: 'The total is larger than an amount can be' },
  'order-already-paid': { status: 409, title: 'This order is paid already' },
  'order-already-canceled': { status: 409, title: 'This order is canceled already' },

  // Payments
  'payment-unknown': { status: 404, title: 'There is no such payment' },
  'payment-already-created': { status: 409, title: 'This payment exists already' },
  'payment-amount-differs': {
    status: 422,
    title: 'The amount is not what is due',
    members: { due: AmountSchema, offered: LargeInteger },
  },
  'payment-already-paid': { status: 409, title: 'This payment is paid already' },
  'payment-already-failed': { status: 409, title: 'This payment has failed already' },

  // Events on their way to Kafka
  'outbox-event-unknown': { status: 404, title: 'The journal has no such event' },
  'outbox-event-not-held': {
    status: 404,
    title: 'No failed or dead event has this id: it was sent, dropped before, or never there',
  },
  'outbox-event-waits': {
    status: 409,
    title: 'This event only waits behind an earlier one: retry or drop that one',
    members: { firstId: LargeInteger },
  },
  'outbox-event-being-retried': {
    status: 409,
    title: 'This event is being retried right now and may still be published; try again',
    headers: soon,
  },

  // Projections
  'projection-unknown': { status: 404, title: 'There is no such projection' },

  // Records that projections could not process
  'dead-letter-unknown': { status: 404, title: 'There is no such dead letter, or not any more' },
  'dead-letters-refused': {
    status: 409,
    title: 'Nothing can be done about some of these letters, so nothing was',
    members: { refused: Refusals },
  },
  'dead-letters-busy': {
    status: 409,
    title: 'Somebody else is replaying or dropping dead letters; try again',
    headers: soon,
  },

  'version-not-skipped': {
    status: 409,
    title: 'This version of the key cannot be skipped',
    members: skipRefusalMembers,
  },

  // What went wrong here
  conflict: { status: 409, title: 'Too many changes at once; try again', headers: soon },
  internal: { status: 500, title: 'Something went wrong here' },
  unavailable: { status: 503, title: 'A part this needs cannot be reached now; try again', headers: soon },
  'missed-window': {
    status: 412,
    title: 'Events of the token came too late for this model, which will never have them',
    members: {
      model: Type.String({ description: 'The read model that lacks them' }),
      missed: Type.Integer({ description: 'Events of the token that missed their window' }),
    },
  },
  'not-caught-up': {
    status: 503,
    title: 'What was asked for does not have the events of the token yet; try again',
    members: {
      model: Type.String({ description: 'The read model that is behind' }),
      awaited: Type.Integer({ description: 'Events of the token that it must have' }),
      missing: Type.Integer({ description: 'Those that it does not have' }),
      reachedAt: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
        description: 'Time of the newest event it has seen',
      }),
      pausedSince: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
        description: 'When an operator paused the projection; null when it is not paused',
      }),
    },
    headers: soon,
  },
  'shutting-down': { status: 503, title: 'This server is stopping; try again', headers: soon },
} as const satisfies Readonly<Record<string, ProblemKind>>;

export type ProblemName = keyof typeof problemTable;

type MembersOf<Name extends ProblemName> = (typeof problemTable)[Name] extends {
  readonly members: infer Members extends Readonly<Record<string, TSchema>>;
}
  ? { readonly [Member in keyof Members]: Static<Members[Member]> }
  : unknown;

/** RFC 9457: every error a client gets looks like this, whatever went wrong. */
export interface ProblemBody {
  readonly type: `urn:millrace:problem:${ProblemName}`;
  readonly title: string;
  readonly status: number;
  readonly detail?: string;
}

export interface Problem {
  readonly body: ProblemBody;
  readonly headers: Readonly<Record<string, string>>;
}

export const kindOf = (name: ProblemName): ProblemKind => problemTable[name];

export const problemType = <Name extends ProblemName>(name: Name): `urn:millrace:problem:${Name}` =>
  `urn:millrace:problem:${name}`;

export const problem = <Name extends ProblemName>(
  name: Name,
  content: MembersOf<Name> & { readonly detail?: string },
  headers?: Readonly<Record<string, string>>,
): Problem => {
  const kind = kindOf(name);
  return {
    body: { type: problemType(name), title: kind.title, status: kind.status, ...content },
    headers: { ...kind.headers, ...headers },
  };
};
