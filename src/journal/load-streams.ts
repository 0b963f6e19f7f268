import { readEnvelope } from '../avro/read-envelope.ts';
import type { DomainEvent } from '../domain/domain-event.ts';
import type { SqlRunner } from '../postgres/database.ts';
import { domainEventOf } from './domain-event-of.ts';
import type { StreamId } from './seal-event.ts';
import type { WriterSchemas } from './writer-schemas.ts';

export interface StreamToLoad extends StreamId {
  /** Only snapshots of this fold are of use. */
  readonly foldVersion: number;
}

/** What the journal has of one stream: a snapshot to begin with, if there is one, and the events after it. */
export interface LoadedStream {
  readonly snapshot: { readonly state: unknown; readonly version: number } | undefined;
  readonly events: readonly DomainEvent[];
}

interface LoadedRow {
  readonly place: number;
  readonly version: number;
  readonly state: unknown;
  readonly schemaFingerprint: Buffer | null;
  readonly payload: Buffer | null;
}

const statement = {
  name: 'load-streams',
  text: `
    with wanted as (
      select * from unnest($1::text[], $2::text[], $3::integer[]) with ordinality as w(type, id, fold_version, place)
    ), snapshot as (
      select w.place, s.version, s.state
      from wanted w
      join aggregate_snapshot s on s.aggregate_type = w.type and s.aggregate_id = w.id and s.fold_version = w.fold_version
    )
    select place, version, state, null::bytea as "schemaFingerprint", null::bytea as payload from snapshot
    union all
    select w.place, o.aggregate_version, null, o.schema_fingerprint, o.payload
    from wanted w
    left join snapshot using (place)
    join outbox o on o.aggregate_type = w.type and o.aggregate_id = w.id
                 and o.aggregate_version > coalesce(snapshot.version, 0)
    order by 1, 2`,
};

/** Several streams in one round trip, each from its snapshot on; the answers stand in the order of the question. */
export const loadStreams = async (
  db: SqlRunner,
  schemas: WriterSchemas,
  streams: readonly StreamToLoad[],
): Promise<readonly LoadedStream[]> => {
  if (streams.length === 0) return [];
  const rows = await db.execute<LoadedRow>(statement, [
    streams.map((stream) => stream.aggregateType),
    streams.map((stream) => stream.aggregateId),
    streams.map((stream) => stream.foldVersion),
  ]);
  const loaded = streams.map(() => ({
    snapshot: undefined as LoadedStream['snapshot'],
    events: [] as DomainEvent[],
  }));
  for (const { place, version, state, schemaFingerprint, payload } of rows) {
    const stream = loaded[place - 1];
    if (!stream) throw new Error(`The journal answered for a stream that nobody asked for (${place})`);
    if (!schemaFingerprint || !payload) {
      stream.snapshot = { state, version };
    } else {
      const writer = await schemas.find(schemaFingerprint);
      stream.events.push(domainEventOf(readEnvelope(writer.type, payload)));
    }
  }
  return loaded;
};
