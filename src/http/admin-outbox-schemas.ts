import { Type } from 'typebox';

const Nullable = Type.Union([Type.String(), Type.Null()]);
const Time = Type.String({ format: 'date-time' });
const NullableTime = Type.Union([Time, Type.Null()]);

const EventRefText = Type.String({
  pattern: '^([1-9][0-9]{0,14}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$',
  description: 'Its number in the outbox, or its event id',
  examples: ['42'],
});
const AggregateText = Type.String({
  pattern: '^[A-Za-z]{1,64}/[\\x21-\\x7e]{1,200}$',
  description: 'Type and id of an aggregate',
  examples: ['Order/o-1'],
});

export const OutboxEventPath = Type.Object({ id: EventRefText });

/** Everything in a query string is text, and nothing here turns text into numbers behind anybody's back. */
export const OutboxListQuery = Type.Object(
  {
    aggregate: Type.Optional(AggregateText),
    type: Type.Optional(
      Type.String({ pattern: '^[A-Za-z0-9._-]{1,200}$', examples: ['loopers.order.created.v1'] }),
    ),
    limit: Type.Optional(
      Type.String({
        pattern: '^([1-9][0-9]{0,3}|10000)$',
        description: 'At most so many, oldest first; 50 unless told',
        examples: ['50'],
      }),
    ),
  },
  { additionalProperties: false },
);

const DryRun = (description: string) => Type.Optional(Type.Boolean({ description }));
const retryDryRun = { dryRun: DryRun('Only say what would be tried') };

export const RetryEventsBody = Type.Union([
  Type.Object({ aggregate: AggregateText, ...retryDryRun }, { additionalProperties: false }),
  Type.Object({ id: EventRefText, ...retryDryRun }, { additionalProperties: false }),
  Type.Object({ all: Type.Literal(true), ...retryDryRun }, { additionalProperties: false }),
]);

export const DropEventBody = Type.Object(
  {
    id: EventRefText,
    dryRun: DryRun('Only say what would be missed; it is dropped with false and nothing else'),
  },
  { additionalProperties: false },
);

const eventProperties = {
  id: Type.Integer({ description: 'Its number in the outbox' }),
  eventId: Type.String(),
  eventType: Type.String({ examples: ['loopers.order.created.v1'] }),
  aggregateType: Type.String(),
  aggregateId: Type.String(),
  aggregateVersion: Type.Integer(),
  createdAt: Time,
  state: Type.Union([
    Type.Literal('new'),
    Type.Literal('sent'),
    Type.Literal('failed'),
    Type.Literal('waiting'),
    Type.Literal('dead'),
    Type.Literal('dropped'),
  ]),
  attempts: Type.Integer(),
  lastError: Nullable,
  failedAt: NullableTime,
  nextRetryAt: NullableTime,
  deadAt: NullableTime,
};
const OutboxEventAnswer = Type.Object(eventProperties, { additionalProperties: false });

export const OutboxListAnswer = Type.Object(
  { events: Type.Array(OutboxEventAnswer) },
  { additionalProperties: false },
);

export const ShownEventAnswer = Type.Object(
  {
    ...eventProperties,
    source: Type.String(),
    partitionKey: Type.String(),
    requestId: Type.String(),
    traceparent: Nullable,
    payloadBytes: Type.Integer(),
    isGenuine: Type.Boolean({ description: 'False when the payload is not what the command wrote' }),
    envelope: Type.Record(Type.String(), Type.Unknown(), {
      description: 'What the event says; or under unreadable, why it cannot be read',
    }),
    operators: Type.Array(
      Type.Object({ at: Time, who: Type.String(), action: Type.String() }, { additionalProperties: false }),
    ),
  },
  { additionalProperties: false },
);

export const RetryAnswer = Type.Object(
  {
    dryRun: Type.Boolean(),
    events: Type.Integer({ description: 'Due now, those that wait behind others included' }),
    aggregates: Type.Integer(),
    revived: Type.Integer({ description: 'How many of them were dead' }),
  },
  { additionalProperties: false },
);

export const DropAnswer = Type.Object(
  {
    outcome: Type.Union([Type.Literal('dropped'), Type.Literal('would-drop')]),
    event: OutboxEventAnswer,
    warning: Type.String({ description: 'What consumers will miss' }),
  },
  { additionalProperties: false },
);
