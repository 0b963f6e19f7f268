import { encodeHeaders, type HeaderBlock } from '../kafka/header-block.ts';
import type { OutgoingRecord } from '../kafka/record-producer.ts';
import type { OutboxRow } from './outbox-source.ts';

type RecordHeaders = Pick<OutgoingRecord, 'headers' | 'sharedHeaders'>;

/**
 * The attributes that the Kafka binding of CloudEvents requires. What an event type has in common is encoded once;
 * the id is the record's own, and so is the trace of a request that was sampled.
 */
export const createCloudEventHeaders = (): ((row: OutboxRow) => RecordHeaders) => {
  const shared = new Map<string, HeaderBlock>();
  return (row) => {
    const kind = `${row.eventType} ${row.source}`;
    let block = shared.get(kind);
    if (!block) {
      block = encodeHeaders({
        ce_specversion: '1.0',
        ce_type: row.eventType,
        ce_source: row.source,
        'content-type': 'application/avro',
      });
      shared.set(kind, block);
    }
    const isSampled = row.traceparent?.endsWith('1') ?? false;
    const headers =
      isSampled && row.traceparent
        ? { ce_id: row.eventId, traceparent: row.traceparent }
        : { ce_id: row.eventId };
    return { sharedHeaders: block, headers };
  };
};
