import { type Static, Type } from 'typebox';

const Nullable = Type.Union([Type.String(), Type.Null()]);
const Time = Type.String({ format: 'date-time' });
const NullableTime = Type.Union([Time, Type.Null()]);
const NullableInteger = Type.Union([Type.Integer(), Type.Null()]);
const Kind = Type.Union([
  Type.Literal('undecodable'),
  Type.Literal('failed'),
  Type.Literal('refused'),
  Type.Literal('parked'),
]);
const closed = { additionalProperties: false };

const LetterIdText = Type.String({
  description: 'Its topic, without the ending .dlq, and its offset there',
  examples: ['like-events@17'],
});

const TimeText = (description: string) =>
  Type.String({
    pattern:
      '^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,3})?)?Z$',
    description,
    examples: ['2026-05-01T10:00:00Z'],
  });

/** Control characters and halves of characters would not get into the audit as they came. */
const PlainText = (description: string, example: string) =>
  Type.String({
    minLength: 1,
    maxLength: 500,
    pattern: '^[^\\p{Cc}\\p{Cs}]*$',
    description,
    examples: [example],
  });

const idsMax = 1000;
const dryRunOf = (description: string) => Type.Optional(Type.Boolean({ description }));

const SkipVersionBody = Type.Object(
  {
    projection: PlainText('The one that waits', 'order-view'),
    key: PlainText('The key of which a version is missing', 'order-1'),
    version: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 999_999_999_999_999,
        description: 'The version that will never come; without it, the one that is missing now',
      }),
    ),
    step: Type.Optional(
      PlainText('The step that waits, where several of the projection do', 'order-versions'),
    ),
    dryRun: dryRunOf('Only say what would be done'),
  },
  closed,
);

/** What is taken, by the names of the topics that there are. */
export const deadLetterRequests = (names: readonly string[]) => {
  const topicPattern = `(${names.map((name) => name.replaceAll('.', '\\.')).join('|')})`;
  const Topic = Type.String({
    pattern: `^${topicPattern}$`,
    description: 'Only of this topic',
    examples: names,
  });
  const LetterId = Type.String({
    pattern: `^${topicPattern}(\\.dlq)?(/[0-9]{1,9})?@[0-9]{1,15}$`,
    description: 'Its topic and its offset there, as the list tells it',
    examples: ['like-events@17'],
  });
  const scope = {
    topic: Type.Optional(Topic),
    projection: Type.Optional(PlainText('Only of this projection', 'product-statistic')),
  };
  const filter = {
    ...scope,
    kind: Type.Optional(Kind),
    exception: Type.Optional(
      PlainText('Only with this in the name or the message of the error', 'RangeError'),
    ),
    key: Type.Optional(PlainText('Only of this key', 'mill-1')),
    since: Type.Optional(TimeText('Only from then on')),
    until: Type.Optional(TimeText('Only from before then')),
  };
  // Everything in a query string is text, and nothing here turns text into numbers behind anybody's back.
  const all = Type.Optional(
    Type.Literal('true', { description: 'Also those that were replayed or dropped' }),
  );
  const limit = Type.Optional(
    Type.String({
      pattern: '^([1-9][0-9]{0,3}|10000)$',
      description: 'At most so many, topic by topic, the oldest first; 50 unless told',
      examples: ['50'],
    }),
  );
  const byIds = {
    ids: Type.Array(LetterId, { minItems: 1, maxItems: idsMax }),
    dryRun: dryRunOf('Only say what would be done'),
  };
  const dryRun = dryRunOf('Only say what would be done; it is done with false and nothing else');
  const byKey = {
    key: PlainText('All letters of this key, in the order in which their records came', 'mill-1'),
    ...scope,
    dryRun,
  };
  const byFilter = {
    filter: Type.Object(filter, closed),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000 })),
    dryRun,
  };
  const force = Type.Optional(
    Type.Boolean({ description: 'Also more often than is allowed, and what was decided about before' }),
  );
  return {
    skipBody: SkipVersionBody,
    path: Type.Object({ id: LetterId }),
    listQuery: Type.Object({ ...filter, all, limit }, closed),
    statsQuery: Type.Object({ ...filter, all }, closed),
    replayBody: Type.Union([
      Type.Object({ ...byIds, force }, closed),
      Type.Object({ ...byKey, force }, closed),
      Type.Object({ ...byFilter, force }, closed),
    ]),
    dropBody: Type.Union([
      Type.Object(byIds, closed),
      Type.Object(byKey, closed),
      Type.Object(byFilter, closed),
    ]),
  };
};
type Requests = ReturnType<typeof deadLetterRequests>;
export type LetterFilterRequest = Omit<Static<Requests['statsQuery']>, 'all'>;
export type ChangeLettersBody = Static<Requests['dropBody']>;

const Place = Type.Object(
  { topic: Type.String(), partition: Type.Integer(), offset: Type.Integer() },
  closed,
);

const Decision = Type.Object(
  {
    decision: Type.Union([Type.Literal('replayed'), Type.Literal('dropped')]),
    attempt: Type.Integer(),
    replayId: Nullable,
    who: Type.String(),
    decidedAt: Time,
    doneAt: Type.Union([Time, Type.Null()], {
      description: 'Null when it is not known whether the replayed record came through',
    }),
  },
  closed,
);

const letterProperties = {
  id: LetterIdText,
  topic: Type.String(),
  projection: Nullable,
  projectionVersion: NullableInteger,
  kind: Type.Union([Kind, Type.Null()]),
  exception: Type.String(),
  message: Type.String(),
  key: Nullable,
  original: Type.Union([Place, Type.Null()], { description: 'Where its record came for the first time' }),
  replays: Type.Integer({ description: 'Times its record had been replayed before' }),
  failedAt: Time,
  valueBytes: NullableInteger,
  valueAtOffset: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Set where the value was too large for the letter: where it is in the topic',
  }),
};

const judgedProperties = {
  ...letterProperties,
  state: Type.Union([
    Type.Literal('open'),
    Type.Literal('replaying', { description: 'A replay was cut off; once more is harmless' }),
    Type.Literal('replayed'),
    Type.Literal('dropped'),
  ]),
  decision: Type.Union([Decision, Type.Null()]),
};

export const LetterListAnswer = Type.Object(
  { letters: Type.Array(Type.Object(judgedProperties, closed)), more: Type.Boolean() },
  closed,
);

export const LetterStatsAnswer = Type.Object(
  {
    letters: Type.Integer(),
    oldestAt: NullableTime,
    causes: Type.Array(
      Type.Object(
        {
          topic: Type.String(),
          projection: Nullable,
          exception: Type.String(),
          message: Type.String({ description: 'What the messages have in common' }),
          letters: Type.Integer(),
          oldestAt: Time,
          newestAt: Time,
          example: LetterIdText,
        },
        closed,
      ),
    ),
  },
  closed,
);

export const ShownLetterAnswer = Type.Object(
  {
    ...judgedProperties,
    stack: Type.String(),
    isParked: Type.Boolean({ description: 'Then it is replayed with all others of its key, or not at all' }),
    headers: Type.Array(
      Type.Object({ name: Type.String(), value: Nullable, isText: Type.Boolean() }, closed),
      { description: 'Those of the record itself; what is no text is in hexadecimal digits' },
    ),
    value: Type.Union([
      Type.Object({ envelope: Type.Record(Type.String(), Type.Unknown()) }, closed),
      Type.Object({ unreadable: Type.String(), hex: Type.String(), isCut: Type.Boolean() }, closed),
      Type.Null(),
    ]),
    history: Type.Array(Decision, {
      description: 'Everything that was decided about this record, oldest first',
    }),
  },
  closed,
);

const refusalProperties = {
  reason: Type.Union([
    Type.Literal('missing'),
    Type.Literal('foreign'),
    Type.Literal('value-gone'),
    Type.Literal('decided'),
    Type.Literal('replaying'),
    Type.Literal('parked'),
    Type.Literal('too-often'),
  ]),
  letters: Type.Integer(),
  examples: Type.Array(LetterIdText),
  projection: Nullable,
  topic: Nullable,
  key: Nullable,
};
export const Refusals = Type.Array(Type.Object(refusalProperties, closed), {
  description: 'Letters that nothing is done about, and why; those of a parked key are replayed by key',
});

const changedProperties = {
  letters: Type.Array(Type.Object(letterProperties, closed)),
  refused: Refusals,
  more: Type.Boolean({ description: 'There are more than were taken; the rest can be next' }),
};

export const ReplayLettersAnswer = Type.Object(
  {
    outcome: Type.Union([Type.Literal('replayed'), Type.Literal('would-replay')]),
    replayId: Nullable,
    rounds: Type.Integer({
      description:
        'How often more of a key was replayed, because records came while others were on their way',
    }),
    stillParked: Type.Integer({
      description: 'Places where the key is parked still: a record has failed again, or no projector runs',
    }),
    releasedKeys: Type.Integer({
      description: 'Keys that had been parked with nothing left to wait for, and go on',
    }),
    ...changedProperties,
  },
  closed,
);

export const DropLettersAnswer = Type.Object(
  {
    outcome: Type.Union([Type.Literal('dropped'), Type.Literal('would-drop')]),
    releasedKeys: Type.Integer({ description: 'Keys that had been parked and go on' }),
    waitingKeys: Type.Array(
      Type.Object(
        {
          projection: Type.String(),
          step: Type.String(),
          key: Type.String(),
          missingVersion: Type.Integer(),
          records: Type.Integer({ description: 'Later records that are held until then' }),
        },
        closed,
      ),
      { description: 'Keys of the letters that wait for a version: if it was dropped, skip it' },
    ),
    ...changedProperties,
  },
  closed,
);

export const SkipVersionAnswer = Type.Object(
  {
    outcome: Type.Union([Type.Literal('skipped'), Type.Literal('would-skip')]),
    projection: Type.String(),
    step: Type.String(),
    key: Type.String(),
    version: Type.Integer({ description: 'The version that is skipped' }),
    next: Type.Integer({ description: 'What the key waits for after it' }),
    releasedRecords: Type.Integer({ description: 'Held records that go on' }),
  },
  closed,
);

/** Why a version was not skipped. */
export const skipRefusalMembers = {
  reason: Type.Union([
    Type.Literal('no-such-step', { description: 'The projection has no step that waits for versions' }),
    Type.Literal('unknown-key', { description: 'Nothing is known of the key, or not yet' }),
    Type.Literal('several-steps', { description: 'It has to be said which step is meant' }),
    Type.Literal('held', { description: 'The version is here, and waits for an earlier one' }),
    Type.Literal('passed', { description: 'It was handed on or skipped before' }),
  ]),
  steps: Type.Array(Type.String(), { description: 'Steps of the projection that wait for versions' }),
  next: Type.Union([Type.Integer(), Type.Null()], { description: 'What the key waits for' }),
};
