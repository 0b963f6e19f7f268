import { expect } from 'chai';
import { frameLength } from '../../src/avro/confluent-frame.ts';
import { type TopicName, topicNames } from '../../src/event-catalogue/topic-name.ts';
import { topicOf } from '../../src/event-catalogue/upcasters.ts';
import { contentHash } from '../../src/journal/content-hash.ts';
import type { Database, SqlRunner } from '../../src/postgres/database.ts';
import { eventually } from './eventually.ts';
import type { Workspace } from './stack.ts';
import { countRecords, type ReadRecord, readTopics } from './topic-reader.ts';

/** A committed event, and what the relay says has become of it. */
export interface JournalEvent {
  readonly outboxId: number;
  readonly eventType: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly aggregateVersion: number;
  readonly partitionKey: string;
  readonly requestId: string;
  readonly payload: Buffer;
  readonly contentHash: Buffer;
  /** In `outbox_failed` or `outbox_dead_letter`. */
  readonly isHeld: boolean;
  /** An operator has given it up. */
  readonly isDropped: boolean;
}

export type KafkaRecord = Pick<ReadRecord, 'topic' | 'partition' | 'offset' | 'key' | 'value'>;

/** Events are called `aggregate@version` here. All lists are empty when nothing has gone wrong and nothing waits. */
export interface RelayVerdict {
  /** Committed, and neither in Kafka nor accounted for: on their way, or lost. */
  readonly missing: readonly string[];
  /** Did not get through and are kept for that, in the order of the journal. */
  readonly held: readonly string[];
  /** What can never be made good again. */
  readonly violations: readonly string[];
  /** Records that were there already. */
  readonly duplicates: number;
}

export const labelOf = (event: Pick<JournalEvent, 'aggregateId' | 'aggregateVersion'>): string =>
  `${event.aggregateId}@${event.aggregateVersion}`;

/** Compares all that was committed with all that is in Kafka. */
export const judge = (
  journal: readonly JournalEvent[],
  records: readonly KafkaRecord[],
  physicalTopic: (topic: TopicName) => string,
): RelayVerdict => {
  // A record carries the bytes of its row behind the frame, and an event's id is among them: bytes tell events apart.
  const byPayload = new Map(journal.map((event) => [event.payload.toString('latin1'), event]));
  const violations: string[] = [];
  const seen = new Set<JournalEvent>();
  const firstSights: JournalEvent[] = [];
  for (const record of records) {
    const place = `${record.topic}/${record.partition}/${record.offset}`;
    const event = byPayload.get(record.value?.toString('latin1', frameLength) ?? '');
    if (!event) {
      violations.push(`${place} (key ${record.key}) was never committed`);
      continue;
    }
    if (record.topic !== physicalTopic(topicOf(event.eventType)) || record.key !== event.partitionKey) {
      violations.push(`${labelOf(event)} is in the wrong place: ${place} under ${record.key}`);
    }
    if (!contentHash(event).equals(event.contentHash)) {
      violations.push(`${labelOf(event)} is not what the command wrote, and yet it is in Kafka`);
    }
    if (!seen.has(event)) firstSights.push(event);
    seen.add(event);
  }
  violations.push(...orderBreaks(journal, firstSights));
  return {
    missing: journal
      .filter((event) => !seen.has(event) && !event.isHeld && !event.isDropped)
      .map((event) => labelOf(event)),
    held: journal.filter(({ isHeld }) => isHeld).map((event) => labelOf(event)),
    violations,
    duplicates: records.length - firstSights.length,
  };
};

/** When an event is seen for the first time, all earlier ones of its aggregate have been, but for the dropped ones. */
const orderBreaks = (
  journal: readonly JournalEvent[],
  firstSights: readonly JournalEvent[],
): readonly string[] => {
  const aggregateOf = ({ aggregateType, aggregateId }: JournalEvent): string =>
    `${aggregateType}/${aggregateId}`;
  const awaited = new Map<string, JournalEvent[]>();
  for (const event of journal.toSorted((a, b) => a.aggregateVersion - b.aggregateVersion)) {
    const stream = awaited.get(aggregateOf(event)) ?? [];
    stream.push(event);
    awaited.set(aggregateOf(event), stream);
  }
  return firstSights.flatMap((event) => {
    const stream = awaited.get(aggregateOf(event)) ?? [];
    const place = stream.indexOf(event);
    const overtaken = stream.slice(0, place).filter(({ isDropped }) => !isDropped);
    awaited.set(aggregateOf(event), stream.toSpliced(place, 1));
    return overtaken.length === 0
      ? []
      : [`${labelOf(event)} came before ${overtaken.map((earlier) => labelOf(earlier)).join(', ')}`];
  });
};

/** The whole journal as it is at one moment: one statement, so that nothing moves between two looks. */
export const journalStatement = {
  name: 'spec-judge-journal',
  text: `
    select id as "outboxId", event_type as "eventType", aggregate_type as "aggregateType",
           aggregate_id as "aggregateId", aggregate_version as "aggregateVersion", partition_key as "partitionKey",
           request_id as "requestId", payload, content_hash as "contentHash",
           exists (select from outbox_failed where outbox_id = o.id)
             or exists (select from outbox_dead_letter where original_id = o.id) as "isHeld",
           exists (select from operator_audit
                   where action = 'outbox.drop' and (target->>'outboxId')::bigint = o.id) as "isDropped"
    from outbox o
    order by id`,
};

/** Rows that the relay keeps although the journal has no such event, or another one under that id. */
const foreignRowsStatement = {
  name: 'spec-judge-foreign',
  text: `
    select f.outbox_id as id
    from outbox_failed f
    left join outbox o on o.id = f.outbox_id and o.event_id = f.event_id and o.payload = f.payload
    where o.id is null
    union all
    select d.original_id from outbox_dead_letter d where not exists (select from outbox where id = d.original_id)`,
};

export interface RelayJudge {
  /** How it is now. While relays run, events may be on their way: then they are missing. */
  verdict(): Promise<RelayVerdict>;
  /**
   * Waits until every committed event is in Kafka, but for those that are to be held, and fails at once when something
   * is wrong that time does not heal.
   */
  allAccountedFor(options?: { held?: readonly string[]; timeoutMs?: number }): Promise<RelayVerdict>;
}

/** One judge for whatever is done to the relay: the journal is the truth, and all topics of the workspace are read. */
export const createRelayJudge = ({
  database,
  workspace,
}: {
  database: Database;
  workspace: Pick<Workspace, 'unique'> & { readonly endpoints: { readonly kafkaBrokers: readonly string[] } };
}): RelayJudge => {
  const brokers = workspace.endpoints.kafkaBrokers;
  const topics = topicNames.map((name) => workspace.unique(name));

  const verdict = async (): Promise<RelayVerdict> => {
    // Kafka first: what is there was committed before, so the journal has it.
    const records = await readTopics(brokers, topics);
    const journal = await database.execute<JournalEvent>(journalStatement);
    const foreign = await database.execute<{ id: number }>(foreignRowsStatement);
    const judged = judge(journal, records, (topic) => workspace.unique(topic));
    return {
      ...judged,
      violations: [
        ...judged.violations,
        ...foreign.map(({ id }) => `outbox_failed or outbox_dead_letter has row ${id}, the journal has not`),
      ],
    };
  };

  return {
    verdict,
    allAccountedFor: async ({ held = [], timeoutMs = 120_000 } = {}) => {
      const final = await eventually(
        async () => {
          await enoughRecords(database, () => countRecords(brokers, topics));
          const now = await verdict();
          if (now.violations.length === 0) {
            expect(shortened(now.missing), 'missing in Kafka').to.deep.equal([]);
            expect(shortened(now.held), 'held').to.deep.equal(held);
          }
          return now;
        },
        { timeoutMs, what: 'every event accounted for' },
      ).catch(async (error: Error) => {
        throw new Error(`${error.message}; ${describeVerdict(await verdict())}`, { cause: error });
      });
      expect(shortened(final.violations)).to.deep.equal([]);
      return final;
    },
  };
};

const wantedStatement = {
  name: 'spec-judge-wanted',
  text: `
    select (select count(*) from outbox)
         - (select count(*) from outbox_failed)
         - (select count(*) from outbox_dead_letter d
            where not exists (select from outbox_failed where outbox_id = d.original_id))
         - (select count(*) from operator_audit where action = 'outbox.drop') as wanted`,
};

/** Spares reading everything again and again while it cannot be complete yet. */
const enoughRecords = async (db: SqlRunner, count: () => Promise<number>): Promise<void> => {
  const [row] = await db.execute<{ wanted: number }>(wantedStatement);
  expect(await count(), 'records in Kafka').to.be.at.least(row?.wanted ?? 0);
};

const describeVerdict = ({ missing, held, violations }: RelayVerdict): string =>
  Object.entries({ missing, held, violations })
    .map(([what, labels]) => `${what}: ${shortened(labels).join(', ') || 'none'}`)
    .join('; ');

/** A complaint about thousands of events is read no better than one about ten. */
const shortened = (labels: readonly string[]): readonly string[] =>
  labels.length <= 10 ? labels : [...labels.slice(0, 10), `and ${labels.length - 10} more`];
