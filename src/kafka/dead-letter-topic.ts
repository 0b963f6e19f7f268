import type { DeadLetters } from '../streams/ports.ts';
import type { RawBatch } from '../streams/record-source.ts';
import { deadLetterTopicOf } from '../topics/topic-plan.ts';
import type { OutgoingRecord, RecordProducer } from './record-producer.ts';

/** Longer stacks tell no more and could make the dead letter itself too large. */
const stackLengthMax = 4000;

/** Original key, bytes and headers, with the cause under the header names of KIP-1034, which other tools know. */
export const createDeadLetterTopics = (producer: RecordProducer): DeadLetters => ({
  send: async (batch, poison, projection) => {
    const records = poison.map(({ record, error }): OutgoingRecord => {
      const { key, value, headers } = record;
      return {
        key,
        value,
        headers: { ...flatten(headers), ...causeHeaders(batch, record.offset, error, projection) },
      };
    });
    await producer.send(new Map([[deadLetterTopicOf(batch.topic), records]]));
  },
});

const causeHeaders = (
  batch: RawBatch,
  offset: number,
  error: Error,
  projection: string,
): Record<string, string> => ({
  '__streams.errors.exception': error.name,
  '__streams.errors.message': error.message,
  '__streams.errors.stacktrace': (error.stack ?? '').slice(0, stackLengthMax),
  '__streams.errors.topic': batch.topic,
  '__streams.errors.partition': String(batch.partition),
  '__streams.errors.offset': String(offset),
  '__millrace.projection': projection,
});

/** kafkajs lists a header that occurs several times; the last one is what most readers would see. */
const flatten = (headers: RawBatch['records'][number]['headers']): Record<string, Buffer | string> => {
  const flat: Record<string, Buffer | string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const last = Array.isArray(value) ? value.at(-1) : value;
    if (last !== undefined) flat[name] = last;
  }
  return flat;
};
