import { CompressionTypes, type Kafka, type Producer } from 'kafkajs';

export interface OutgoingRecord {
  readonly key: Buffer | string | null;
  readonly value: Buffer | null;
  readonly headers?: Readonly<Record<string, Buffer | string>>;
}

export interface RecordProducer {
  /** Resolves when every replica that must have them has the records; order within a topic and key is kept. */
  send(batches: ReadonlyMap<string, readonly OutgoingRecord[]>): Promise<void>;
  close(): Promise<void>;
}

/** Connects with the first send, and anew after a failed one: then kafkajs's sequence numbers may differ from the broker's. */
export const createRecordProducer = (
  kafka: Kafka,
  options: { inFlightMax: number; requestTimeoutMs: number },
): RecordProducer => {
  let connected: Promise<Producer> | undefined;

  const connect = async (): Promise<Producer> => {
    const producer = kafka.producer({
      idempotent: true,
      maxInFlightRequests: options.inFlightMax,
      allowAutoTopicCreation: false,
    });
    await producer.connect();
    return producer;
  };

  const disconnect = async (): Promise<void> => {
    const leaving = connected;
    connected = undefined;
    // A producer that never connected has nothing to give back.
    const producer = await leaving?.catch(() => undefined);
    await producer?.disconnect();
  };

  return {
    send: async (batches) => {
      connected ??= connect();
      try {
        const producer = await connected;
        await producer.sendBatch({
          acks: -1,
          timeout: options.requestTimeoutMs,
          compression: CompressionTypes.None,
          topicMessages: [...batches].map(([topic, records]) => ({
            topic,
            messages: records.map((record) => ({ ...record, headers: { ...record.headers } })),
          })),
        });
      } catch (error) {
        await disconnect();
        throw error;
      }
    },
    close: disconnect,
  };
};
