import type { Rejection } from '../commands/command.ts';
import type { ModelName } from '../read-model/queries.ts';
import type { ProblemName } from './problem.ts';

export const tags = {
  Products: 'What can be bought, and what is left of it',
  Likes: 'Who likes what',
  Orders: 'From basket to paid or canceled',
  Payments: 'Money for orders',
  Outbox: 'What did not get to Kafka, and what to do about it; for operators',
  Relay: 'The way from the outbox to Kafka; for operators',
  Projections: 'What makes read models of events; for operators',
  DeadLetters: 'What projections could not process, and what to do about it; for operators',
  Live: 'What changes, as it changes',
  Health: 'For whoever runs this',
} as const;

export interface CommandTraits {
  /** Likes and views come in thousands and have a limit of their own. */
  readonly limit: 'commands' | 'likes-and-views';
  /** `transition`: an optional If-Match that the operator may make compulsory. */
  readonly ifMatch: 'not-applicable' | 'optional' | 'transition';
  readonly rejections: readonly Rejection['reason'][];
}

/** What one route is: the hooks act on it, and the OpenAPI document tells it. */
export interface Operation {
  readonly id: string;
  readonly tag: keyof typeof tags;
  readonly summary: string;
  readonly description?: string;
  readonly access: 'public' | 'shopper' | 'operator';
  readonly command?: CommandTraits;
  /** The answer does not end: events go out as they come, and who comes back says which it heard last. */
  readonly isStream?: true;
  /** The models it reads: a query that brings a token waits for them. */
  readonly reads?: readonly ModelName[];
  /** Problems of its own, besides rejections and what every route can give. */
  readonly problems?: readonly ProblemName[];
  /** Headers of the good answer, with what they tell. */
  readonly answerHeaders?: Readonly<Record<string, string>>;
}

/** Whether the answer has a tag that a client can come back with, to hear only whether it has changed. */
export const isConditional = ({ command, answerHeaders }: Operation): boolean =>
  !command && answerHeaders?.ETag !== undefined;

declare module 'fastify' {
  interface FastifyContextConfig {
    operation?: Operation;
  }
}

const everywhere = ['internal', 'unavailable', 'shutting-down'] as const;
const withCredentials = ['unauthenticated', 'too-many-failed-logins'] as const;
const everyCommand = [
  'malformed-json',
  'idempotency-key-missing',
  'idempotency-key-invalid',
  'idempotency-key-in-flight',
  'idempotency-key-reused',
  'rate-limited',
  'body-too-large',
  'unsupported-media-type',
  'conflict',
] as const;
const withToken = ['consistency-token-invalid', 'not-caught-up', 'missed-window'] as const;
const anyInput = [
  'wrong-type',
  'field-missing',
  'unknown-field',
  'text-not-allowed',
  'invalid-request',
  'malformed-url',
  'url-too-long',
] as const;
const numbers = ['number-too-large', 'number-too-small'] as const;
const lists = ['list-too-short', 'list-too-long'] as const;

/** Every problem the route can answer with. */
export const problemsOf = (
  operation: Operation,
  takes: { numbers: boolean; lists: boolean },
): readonly ProblemName[] => {
  const { access, command, reads, problems = [] } = operation;
  return [
    ...new Set<ProblemName>([
      ...everywhere,
      ...(access === 'public' ? [] : [...withCredentials, ...anyInput]),
      ...(access === 'operator' ? ['role-insufficient' as const] : []),
      ...(reads ? withToken : []),
      ...(takes.numbers ? numbers : []),
      ...(takes.lists ? lists : []),
      ...(command ? [...everyCommand, ...command.rejections, ...ifMatchProblems[command.ifMatch]] : []),
      ...problems,
    ]),
  ];
};

const ifMatchProblems: Readonly<Record<CommandTraits['ifMatch'], readonly ProblemName[]>> = {
  'not-applicable': ['if-match-not-applicable'],
  optional: ['if-match-invalid', 'version-differs'],
  transition: ['if-match-invalid', 'version-differs', 'if-match-required'],
};
