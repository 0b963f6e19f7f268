import { Type } from 'typebox';
import { ghostListDefault, shardsMax } from '../relay-admin/relay-admin.ts';

const Time = Type.String({ format: 'date-time' });
const NullableTime = Type.Union([Time, Type.Null()]);
const NullableText = Type.Union([Type.String(), Type.Null()]);
const Count = Type.Integer({ minimum: 0 });
const closed = { additionalProperties: false };

/** Beyond this a number in JSON no longer says what was meant. */
const largestId = 999_999_999_999_999;

export const PauseBody = Type.Union([
  Type.Object(
    {
      reason: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 500,
          pattern: '^[^\\p{Cc}\\p{Cs}]*$',
          description: 'Why, for whoever wonders',
          examples: ['the brokers are moved'],
        }),
      ),
    },
    closed,
  ),
  Type.Null(),
]);

export const ResyncRelayBody = Type.Object(
  {
    fromId: Type.Integer({
      minimum: 1,
      maximum: largestId,
      description: 'First outbox id to publish again; what lies before counts as published',
      examples: [42],
    }),
    dryRun: Type.Optional(
      Type.Boolean({
        description: 'Only say what would be published again; it is done with false and nothing else',
      }),
    ),
  },
  closed,
);

export const ReshardRelayBody = Type.Object(
  {
    shards: Type.Integer({
      minimum: 1,
      maximum: shardsMax,
      description: 'How many shards the journal is divided into',
      examples: [2],
    }),
    dryRun: Type.Optional(
      Type.Boolean({ description: 'Only say what would happen; it is done with false and nothing else' }),
    ),
  },
  closed,
);

const Cursor = Type.Object(
  {
    from: Type.String(),
    to: Type.String(),
    lastId: Type.Integer(),
    restoredLastId: Type.Optional(
      Type.Integer({ description: 'While rows of a dump are published again: how far, by id' }),
    ),
  },
  { ...closed, description: 'Snapshots of PostgreSQL: everything in the first is published' },
);

export const Pause = Type.Object({ by: Type.String(), since: Time, because: NullableText }, closed);
const NullablePause = Type.Union([Pause, Type.Null()]);

const Lease = Type.Object({ name: Type.String(), holder: Type.String(), until: Time }, closed);

export const PauseAnswer = Type.Object(
  {
    changed: Type.Boolean({ description: 'False when it was paused already; then the first pause stands' }),
    pause: Pause,
    stillRelaying: Type.Array(Lease, {
      description: 'Relays that finish what they have begun before they give their lease back',
    }),
  },
  closed,
);

export const ResumeAnswer = Type.Object(
  {
    ended: Type.Union([Pause, Type.Null()], {
      description: 'The pause that is over; null if there was none',
    }),
  },
  closed,
);

const LogLoss = Type.Object({ slot: Type.String(), reason: Type.String(), since: Time }, closed);

export const UseWalAnswer = Type.Object(
  {
    ended: Type.Union([LogLoss, Type.Null()], {
      description: 'Why the relays did not read the log; null when they had not lost it',
    }),
  },
  closed,
);

export const ResyncAnswer = Type.Object(
  {
    dryRun: Type.Boolean(),
    fromId: Type.Integer(),
    rows: Count,
    firstId: Type.Union([Type.Integer(), Type.Null()]),
    lastId: Type.Union([Type.Integer(), Type.Null()]),
  },
  closed,
);

export const ReshardAnswer = Type.Object(
  {
    dryRun: Type.Boolean(),
    from: Type.Integer(),
    to: Type.Integer(),
    cursor: Type.Union([Cursor, Type.Null()], {
      description: 'Where all new shards begin; null when the number stays as it is',
    }),
    repeated: Type.Integer({ minimum: 0, description: 'Events that are published again' }),
  },
  closed,
);

export const GhostListQuery = Type.Object(
  {
    limit: Type.Optional(
      Type.String({
        pattern: '^([1-9][0-9]{0,3}|10000)$',
        description: `At most so many, in the order in which Kafka got them; ${ghostListDefault} unless told`,
        examples: ['50'],
      }),
    ),
  },
  closed,
);

const GhostCount = Type.Integer({
  minimum: 0,
  description: 'Events that Kafka has and the journal has not, and that nobody has dismissed',
});

export const GhostListAnswer = Type.Object(
  {
    events: GhostCount,
    ghosts: Type.Array(
      Type.Object(
        {
          eventId: Type.String(),
          eventType: Type.String({ examples: ['loopers.order.created.v1'] }),
          aggregateType: Type.String(),
          aggregateId: Type.String(),
          aggregateVersion: Type.Integer(),
          topic: Type.String(),
          partition: Type.Integer(),
          offset: Type.Integer({ description: 'Of its first record' }),
          recordedAt: Time,
          foundAt: Time,
          replacedBy: Type.Union([Type.String(), Type.Null()], {
            description:
              'The event that is this version of the aggregate in the journal now, if there is one',
          }),
        },
        closed,
      ),
    ),
  },
  closed,
);

export const DismissGhostsBody = Type.Object(
  {
    dryRun: Type.Optional(
      Type.Boolean({
        description: 'Only say how many would be dismissed; it is done with false and nothing else',
      }),
    ),
  },
  closed,
);

export const DismissGhostsAnswer = Type.Object({ dryRun: Type.Boolean(), events: Count }, closed);

const Ghosts = Type.Object(
  {
    events: GhostCount,
    search: Type.Union(
      [
        Type.Object(
          {
            noticedAt: Time,
            from: Type.String({ format: 'date-time', description: 'Records from then on are looked up' }),
            done: Type.Integer({ minimum: 0, description: 'How often all of them were looked up' }),
            nextAt: Type.Union([Time, Type.Null()], {
              description: 'When they are looked up again; null when it is complete',
            }),
            unreadable: Type.Integer({ minimum: 0, description: 'Records that could not be read' }),
          },
          closed,
        ),
        Type.Null(),
      ],
      { description: 'The search after the last change of server or timeline; null if there was none' },
    ),
  },
  { ...closed, description: 'Events that were published and then lost by the journal, as in a failover' },
);

const Trouble = Type.Object({ lease: Type.String(), since: Time, error: Type.String() }, closed);

export const RelayStatusAnswer = Type.Object(
  {
    pause: NullablePause,
    pending: Type.Integer({
      minimum: 0,
      description: 'Committed and not published; estimated above 100,000',
    }),
    overdue: Type.Integer({ minimum: 0, description: 'Pending for more than five minutes' }),
    oldestPendingAt: NullableTime,
    failed: Type.Integer({ minimum: 0, description: 'Tried again, or waiting behind one that is' }),
    dead: Type.Integer({ minimum: 0, description: 'Waiting for the decision of an operator' }),
    shards: Type.Array(
      Type.Object(
        {
          number: Type.Integer(),
          of: Type.Integer(),
          cursor: Cursor,
          movedAt: NullableTime,
          pending: Count,
          oldestPendingAt: NullableTime,
          heldBy: Type.Union([Type.String(), Type.Null()], { description: 'Null when it has no owner' }),
          heldUntil: NullableTime,
        },
        closed,
      ),
    ),
    processes: Type.Array(
      Type.Object(
        {
          name: Type.String(),
          startedAt: Time,
          isAlive: Type.Boolean({ description: 'False when it cannot take its share and says why' }),
          circuit: Type.Union([Type.Literal('closed'), Type.Literal('half-open'), Type.Literal('open')]),
          circuitSince: Time,
          troubles: Type.Array(Trouble),
        },
        closed,
      ),
      { description: 'The relays that are alive, whether they have a shard or stand by' },
    ),
    slot: Type.Union([
      Type.Object(
        {
          name: Type.String(),
          state: Type.String(),
          active: Type.Boolean(),
          lagBytes: Type.Union([Type.Integer(), Type.Null()]),
        },
        { ...closed, description: 'Where the relay reads the write-ahead log' },
      ),
      Type.Null(),
    ]),
    ghosts: Ghosts,
    logLoss: Type.Union([LogLoss, Type.Null()], {
      description: 'Why relays that should read the write-ahead log read the table by snapshots',
    }),
    isIncomplete: Type.Boolean({ description: 'Somebody has locked a table: its figures are missing' }),
    late: Type.Array(
      Type.Object(
        {
          kind: Type.String({ examples: ['circuit-open'] }),
          sentence: Type.String(),
          remedy: Type.String({ description: 'What to do about it' }),
          details: Type.Record(Type.String(), Type.Unknown()),
        },
        closed,
      ),
      { description: 'Why events are late; empty when they are on time' },
    ),
  },
  closed,
);
