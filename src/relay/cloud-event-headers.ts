import { encodeHeadersWithUuid, type HeaderBlock } from '../kafka/header-block.ts';
import type { OutboxRow } from './outbox-source.ts';

/**
 * The attributes that the Kafka binding of CloudEvents requires. What an event type has in common is encoded once; the id
 * is the record's own.
 */
export const createCloudEventHeaders = (): ((row: OutboxRow) => HeaderBlock) => {
  const shared = new Map<string, HeaderBlock>();
  return ({ eventType, source }) => {
    const kind = `${eventType} ${source}`;
    let block = shared.get(kind);
    if (!block) {
      const headers = {
        ce_specversion: '1.0',
        ce_type: eventType,
        ce_source: source,
        'content-type': 'application/avro',
      };
      block = encodeHeadersWithUuid(headers, 'ce_id');
      shared.set(kind, block);
    }
    return block;
  };
};
