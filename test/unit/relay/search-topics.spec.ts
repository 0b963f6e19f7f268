import { expect } from 'chai';
import { frame } from '../../../src/avro/confluent-frame.ts';
import { envelopeSchemaOf } from '../../../src/avro/envelope-schema.ts';
import type { OffsetRange, StoredRecord, TopicReader } from '../../../src/kafka/topic-reader.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { type SchemaRegistry, UnknownSchemaId } from '../../../src/registry/schema-registry.ts';
import { type SearchPorts, searchTopics } from '../../../src/relay/ghosts/search-topics.ts';
import { viewOf } from '../../support/journal.ts';

const schemaId = 7;
const unknownSchemaId = 8;
const topic = 'product-view-events';

/** A topic of one partition; says whether it was closed. */
const topicWith = (values: readonly (Buffer | null)[], { pieceMax = 1000 } = {}) => {
  const records = values.map(
    (value, offset): StoredRecord => ({ offset, timestampMs: 1000 + offset, key: null, value, headers: [] }),
  );
  const state = { isClosed: false };
  const reader: TopicReader = {
    ranges: async (_topics, { sinceMs = 0 } = {}) => {
      const start = records.findIndex(({ timestampMs }) => timestampMs >= sinceMs);
      return [{ topic, partition: 0, start: start < 0 ? records.length : start, end: records.length }];
    },
    read: async function* ({ start, end }: OffsetRange) {
      for (let at = start; at < end; at += pieceMax) yield records.slice(at, Math.min(end, at + pieceMax));
      return end;
    },
    close: async () => {
      state.isClosed = true;
    },
  };
  return { reader, state };
};

const registry: SchemaRegistry = {
  idOf: async () => schemaId,
  writerType: async (id) => {
    if (id !== schemaId) throw new UnknownSchemaId(`The registry has no schema ${id}`);
    return envelopeSchemaOf('ProductViewed').type;
  },
};

interface Journal {
  /** Event ids that can be seen. */
  readonly visible: Set<string>;
  /** What transactions under way have written: seen when they have ended, which takes so many looks. */
  readonly underWay?: { readonly ids: readonly string[]; looks: number };
}

/** The journal's side of it, by the names of the statements; says what was stored and how many were asked for at once. */
const databaseOver = (journal: Journal) => {
  const stored = new Set<string>();
  const asked: number[] = [];
  const missing = ([ids]: readonly unknown[]) =>
    (ids as readonly string[]).filter((id) => !journal.visible.has(id)).map((eventId) => ({ eventId }));
  const answers: Record<string, (values: readonly unknown[]) => readonly unknown[]> = {
    'find-missing-events': (values) => {
      asked.push((values[0] as readonly string[]).length);
      return missing(values);
    },
    'find-outbox-writers': () => {
      const { underWay } = journal;
      if (!underWay) return [];
      if (underWay.looks-- > 0) return [{ writer: '3/17' }];
      for (const id of underWay.ids) journal.visible.add(id);
      return [];
    },
    'store-ghost-events': (values) => {
      const before = stored.size;
      for (const { eventId } of missing(values)) stored.add(eventId);
      return [...stored].slice(before);
    },
  };
  const execute = async (statement: { name: string }, values: readonly unknown[] = []) => {
    const answer = answers[statement.name];
    if (!answer) throw new Error(`Nobody expected ${statement.name}`);
    return answer(values);
  };
  return { database: { execute } as unknown as Database, stored, asked };
};

const view = (version = 1) => {
  const { eventId, payload } = viewOf('p', version);
  return { eventId, value: frame(schemaId, payload) };
};
const idsOf = (events: readonly { eventId: string }[]): string[] => events.map(({ eventId }) => eventId);

describe('search for events that the journal does not have', () => {
  const search = (
    { reader }: { reader: TopicReader },
    database: Database,
    request: Parameters<typeof searchTopics>[1] = {},
    ports: Partial<SearchPorts> = {},
  ) =>
    searchTopics({ database, registry, topics: [topic], openReader: async () => reader, ...ports }, request);

  it('stores what is missing and nothing else, once for all its records', async () => {
    const kept = [view(), view()];
    const lost = [view(), view()];
    const kafka = topicWith([...kept, ...lost, ...lost].map(({ value }) => value));
    const { database, stored } = databaseOver({ visible: new Set(idsOf(kept)) });
    expect(await search(kafka, database)).to.deep.equal({ records: 6, unreadable: 0, found: 2 });
    expect([...stored]).to.deep.equal(idsOf(lost));
    expect(await search(kafka, database), 'again').to.deep.include({ found: 0 });
    expect(kafka.state.isClosed).to.equal(true);
  });

  it('waits for transactions under way before it calls an event missing', async () => {
    const committing = [view(), view()];
    const lost = view();
    const kafka = topicWith([...committing, lost].map(({ value }) => value));
    const journal = { visible: new Set<string>(), underWay: { ids: idsOf(committing), looks: 2 } };
    const { database, stored } = databaseOver(journal);
    expect(await search(kafka, database)).to.deep.include({ found: 1 });
    expect([...stored]).to.deep.equal([lost.eventId]);
  });

  it('counts records that it cannot read, and goes on behind them', async () => {
    const lost = view();
    const { payload } = viewOf('p', 1);
    const kafka = topicWith([
      null,
      Buffer.alloc(0),
      Buffer.from('not avro'),
      frame(unknownSchemaId, payload),
      frame(schemaId, payload.subarray(0, 10)),
      frame(schemaId, viewOf('p\0', 1).payload),
      lost.value,
    ]);
    const { database, stored } = databaseOver({ visible: new Set() });
    expect(await search(kafka, database)).to.deep.equal({ records: 7, unreadable: 6, found: 1 });
    expect([...stored]).to.deep.equal([lost.eventId]);
  });

  it('takes nothing for unreadable when the registry does not answer', async () => {
    const kafka = topicWith([view().value]);
    const { database, stored } = databaseOver({ visible: new Set() });
    const silent = { ...registry, writerType: () => Promise.reject(new Error('connect ECONNREFUSED')) };
    const failure = await search(kafka, database, {}, { registry: silent }).catch((error: Error) => error);
    expect(failure)
      .to.be.instanceOf(Error)
      .and.have.property('message')
      .match(/registry/);
    expect(stored.size).to.equal(0);
    expect(kafka.state.isClosed).to.equal(true);
  });

  it('looks up a bounded number at a time, from the time it is told, and says how far it is', async () => {
    const events = Array.from({ length: 2500 }, () => view());
    const kafka = topicWith(
      events.map(({ value }) => value),
      { pieceMax: 2500 },
    );
    const { database, asked } = databaseOver({ visible: new Set(idsOf(events)) });
    const told: number[] = [];
    const report = await search(kafka, database, {
      from: new Date(1100),
      onProgress: ({ done, total }) => {
        expect(total).to.equal(2400);
        told.push(done);
      },
    });
    expect(report).to.deep.equal({ records: 2400, unreadable: 0, found: 0 });
    expect(asked).to.deep.equal([1000, 1000, 400]);
    expect(told).to.deep.equal([1000, 2000, 2400]);
  });

  it('can be broken off, and leaves no connection behind', async () => {
    const kafka = topicWith([view().value, view().value], { pieceMax: 1 });
    const { database, stored } = databaseOver({ visible: new Set() });
    const over = new Error('over');
    const failure = await search(kafka, database, {
      onProgress: () => {
        throw over;
      },
    }).catch((error: Error) => error);
    expect(failure).to.equal(over);
    expect(stored.size, 'what was found stays').to.equal(1);
    expect(kafka.state.isClosed).to.equal(true);
  });
});
