declare module 'kafkajs/src/network/requestQueue/index.js' {
  const RequestQueue: { prototype: unknown };
  export default RequestQueue;
}

declare module 'kafkajs/src/broker/index.js' {
  const Broker: { prototype: unknown };
  export default Broker;
}

declare module 'kafkajs/src/protocol/encoder.js' {
  export default class Encoder {
    constructor(initialSize?: number);
    readonly buffer: Buffer;
    writeInt16(value: number): this;
    writeInt32(value: number): this;
    writeInt8(value: number): this;
    writeInt64(value: number | string): this;
    writeString(value: string | null): this;
    writeBytes(value: Buffer): this;
  }
}

declare module 'kafkajs/src/protocol/error.js' {
  const errors: {
    createErrorFromCode(code: number): Error & { readonly type: string; readonly retriable: boolean };
  };
  export default errors;
}

declare module 'kafkajs/src/protocol/requests/produce/index.js' {
  const Produce: unknown;
  export default Produce;
}

// The ones below are used by tests, as the judge of our own encoder.

declare module 'kafkajs/src/protocol/decoder.js' {
  export default class Decoder {
    constructor(buffer: Buffer);
  }
}

declare module 'kafkajs/src/protocol/recordBatch/v0/decoder.js' {
  import type Decoder from 'kafkajs/src/protocol/decoder.js';

  const decode: (decoder: Decoder) => Promise<{
    readonly producerId: string;
    readonly producerEpoch: number;
    readonly firstSequence: number;
    readonly records: readonly {
      readonly offset: string;
      readonly timestamp: string;
      readonly key: Buffer | null;
      readonly value: Buffer | null;
      readonly headers: Readonly<Record<string, Buffer | readonly Buffer[]>>;
    }[];
  }>;
  export default decode;
}

declare module 'kafkajs/src/protocol/recordBatch/v0/index.js' {
  import type Encoder from 'kafkajs/src/protocol/encoder.js';

  const batch: { RecordBatch(fields: Readonly<Record<string, unknown>>): Promise<Encoder> };
  export default batch;
}

declare module 'kafkajs/src/protocol/recordBatch/record/v0/index.js' {
  import type Encoder from 'kafkajs/src/protocol/encoder.js';

  const encodeRecord: (fields: Readonly<Record<string, unknown>>) => Encoder;
  export default encodeRecord;
}

declare module 'kafkajs/src/protocol/recordBatch/crc32C/index.js' {
  const crc32C: (bytes: Buffer) => number;
  export default crc32C;
}

declare module 'kafkajs/src/producer/partitioners/default/murmur2.js' {
  const murmur2: (key: Buffer | string) => number;
  export default murmur2;
}

declare module 'kafkajs/src/protocol/requests/fetch/v11/response.js' {
  interface Answer {
    readonly responses: readonly {
      readonly topicName: string;
      readonly partitions: readonly {
        readonly partition: number;
        readonly errorCode: number;
        readonly lastStableOffset: string;
        readonly abortedTransactions: readonly {
          readonly producerId: string;
          readonly firstOffset: string;
        }[];
        readonly messages: readonly {
          readonly offset: string;
          readonly timestamp: string;
          readonly key: Buffer | null;
          readonly value: Buffer | null;
          readonly headers: Readonly<Record<string, Buffer | null | readonly (Buffer | null)[]>>;
        }[];
      }[];
    }[];
  }
  const response: { decode(answer: Buffer): Promise<Answer> };
  export default response;
}
