import { CompressionTypes, type IHeaders, Kafka, logLevel } from 'kafkajs';
import { openAdapters } from '../../src/app/adapters.ts';
import { deadLetterAdminOptions } from '../../src/app/dead-letter-admin.ts';
import { bringTopicsToPlan } from '../../src/app/prepare.ts';
import {
  createDeadLetterAdmin,
  type DeadLetterAdmin,
  type DeadLetterAdminOptions,
} from '../../src/dlq-admin/dlq-admin.ts';
import { type LetterPlace, parseLetterId } from '../../src/dlq-admin/letter-id.ts';
import type { RecordProducer } from '../../src/kafka/record-producer.ts';
import type { Database } from '../../src/postgres/database.ts';
import type { SchemaRegistry } from '../../src/registry/schema-registry.ts';
import type { LetterKind } from '../../src/streams/ports.ts';
import { eventually } from './eventually.ts';
import { silentLog } from './silent-log.ts';
import type { Workspace } from './stack.ts';

/** A letter as a projection writes it; what is not said is as it usually is. */
export interface WrittenLetter {
  readonly topic?: string;
  readonly partition?: number;
  readonly offset?: number;
  readonly projection?: string;
  readonly version?: number;
  readonly kind?: LetterKind;
  readonly exception?: string;
  readonly message?: string;
  readonly key?: string | Buffer | null;
  readonly value?: Buffer | null;
  readonly failedAt?: Date;
  /** The record's own headers; those of an earlier replay among them. */
  readonly headers?: IHeaders;
}

/** The format that the documents promise, written by a client that knows nothing of Millrace. */
const messageOf = (workspace: Workspace, letter: WrittenLetter) => ({
  key: letter.key === undefined ? 'p-1' : letter.key,
  value: letter.value === undefined ? Buffer.from('not avro') : letter.value,
  headers: {
    ...letter.headers,
    '__streams.errors.exception': letter.exception ?? 'DecodingError',
    '__streams.errors.message': letter.message ?? 'The record does not start with the 5-byte schema header',
    '__streams.errors.stacktrace': 'DecodingError: no header\n    at decode (decode.ts:1:1)',
    '__streams.errors.topic': workspace.unique(letter.topic ?? 'like-events'),
    '__streams.errors.partition': String(letter.partition ?? 0),
    '__streams.errors.offset': String(letter.offset ?? 0),
    '__millrace.projection': letter.projection ?? 'product-statistic',
    '__millrace.projection-version': String(letter.version ?? 1),
    '__millrace.kind': letter.kind ?? 'failed',
    '__millrace.failed-at': (letter.failedAt ?? new Date()).toISOString(),
  },
});

const kafkaOf = ({ endpoints }: Workspace): Kafka =>
  new Kafka({ brokers: [...endpoints.kafkaBrokers], connectionTimeout: 30_000, logLevel: logLevel.NOTHING });

/** Writes letters in their order; answers with their ids. */
export const writeLetters = async (
  workspace: Workspace,
  letters: readonly WrittenLetter[],
  compression = CompressionTypes.None,
): Promise<readonly string[]> => {
  const producer = kafkaOf(workspace).producer({ allowAutoTopicCreation: false });
  await producer.connect();
  const ids = new Map<WrittenLetter, string>();
  try {
    for (const [topic, some] of Map.groupBy(letters, (letter) => letter.topic ?? 'like-events')) {
      const [written] = await producer.send({
        topic: `${workspace.unique(topic)}.dlq`,
        compression,
        messages: some.map((letter) => messageOf(workspace, letter)),
      });
      for (const [index, letter] of some.entries())
        ids.set(letter, `${topic}@${Number(written?.baseOffset) + index}`);
    }
  } finally {
    await producer.disconnect();
  }
  return letters.map((letter) => ids.get(letter) ?? '');
};

/** Writes one message to a topic as it is given. */
export const writeMessage = async (
  workspace: Workspace,
  topic: string,
  message: { key: string | null; value: Buffer | null; headers?: IHeaders; partition?: number },
): Promise<number> => {
  const producer = kafkaOf(workspace).producer({ allowAutoTopicCreation: false });
  await producer.connect();
  try {
    const [written] = await producer.send({ topic: workspace.unique(topic), messages: [message] });
    return Number(written?.baseOffset);
  } finally {
    await producer.disconnect();
  }
};

export interface DeadLetterDesk {
  readonly admin: DeadLetterAdmin;
  readonly registry: SchemaRegistry;
  place(id: string): LetterPlace;
  openProducer(): RecordProducer;
  /** The tools with one of their parts replaced. */
  with(parts: Partial<DeadLetterAdminOptions>): DeadLetterAdmin;
}

/** The operator's tools over the servers of the workspace, with the topics they look after. */
export const openDeadLetterDesk = async (
  workspace: Workspace,
  database: Database,
): Promise<DeadLetterDesk> => {
  const adapters = openAdapters(workspace.config, workspace.endpoints, silentLog());
  // The specs bring a database of their own.
  await adapters.database.close();
  await bringTopicsToPlan(adapters, workspace.config, { dryRun: false });
  const options = deadLetterAdminOptions({ ...adapters, database }, workspace.config);
  const admin = createDeadLetterAdmin(options);
  // A broker that is busy takes a while to find out that it leads a new topic.
  await eventually(() => admin.stats({}), { timeoutMs: 60_000, what: 'topics that can be read' });
  return {
    admin,
    registry: adapters.registry,
    openProducer: options.openProducer,
    place: (id) => {
      const place = parseLetterId(admin.topics, id);
      if (!place) throw new Error(`${id} names no letter`);
      return place;
    },
    with: (parts) => createDeadLetterAdmin({ ...options, ...parts }),
  };
};

const parkStatement = {
  name: 'spec-park-key',
  text: `
    insert into projection_parked_key (projection, version, topic, partition, key, since_offset, records, reason)
    values ('product-statistic', $1, $2, $3, $4, $5, $6, 'spec')`,
};

/** What the engine leaves behind when a record of a key has failed and others went behind it. */
export const parkKey = async (
  workspace: Workspace,
  db: Database,
  parked: { key: string; records: number; topic?: string; partition?: number; version?: number },
): Promise<void> => {
  const { key, records, topic = 'like-events', partition = 0, version = 1 } = parked;
  await db.execute(parkStatement, [version, workspace.unique(topic), partition, key, 0, records]);
};

const checkpointStatement = {
  name: 'spec-move-checkpoint',
  text: `
    insert into projection_checkpoint (projection, version, topic, partition, next_offset)
    values ('product-statistic', 1, $1, $2, $3)
    on conflict (projection, version, topic, partition) do update set next_offset = excluded.next_offset`,
};

/** What the engine leaves behind when it has come that far. */
export const moveCheckpoint = async (
  workspace: Workspace,
  db: Database,
  {
    topic = 'like-events',
    partition = 0,
    nextOffset,
  }: { topic?: string; partition?: number; nextOffset: number },
): Promise<void> => {
  await db.execute(checkpointStatement, [workspace.unique(topic), partition, nextOffset]);
};

export const parkedKeys = (
  db: Database,
  projection?: string,
): Promise<readonly { key: string; records: number }[]> =>
  db.execute(
    {
      name: 'spec-parked',
      text: `select key, records from projection_parked_key
             where projection = coalesce($1, projection) order by key`,
    },
    [projection ?? null],
  );

export interface DecisionRow {
  readonly dlqOffset: number;
  readonly decision: string;
  readonly attempt: number;
  readonly replayId: string | null;
  readonly who: string;
  readonly isDone: boolean;
  readonly originalOffset: number | null;
  readonly key: string | null;
}

export const decisionRows = (db: Database): Promise<readonly DecisionRow[]> =>
  db.execute({
    name: 'spec-decisions',
    text: `
      select dlq_offset as "dlqOffset", decision, attempt, replay_id as "replayId", who, done_at is not null as "isDone",
             original_offset as "originalOffset", key
      from dead_letter_decision order by dlq_topic, dlq_partition, dlq_offset`,
  });

/** For the next test: nothing decided, parked or audited. The letters stay: they have other offsets than the next ones. */
export const forgetDecisions = async (db: Database): Promise<void> => {
  for (const table of [
    'dead_letter_decision',
    'projection_parked_key',
    'projection_checkpoint',
    'projection_task',
    'operator_audit',
  ])
    await db.execute({ name: `spec-forget-${table}`, text: `delete from ${table}` });
};
