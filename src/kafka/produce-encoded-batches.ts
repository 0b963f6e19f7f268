// Not part of kafkajs's public face, like the request queue in create-kafka.ts.
import Broker from 'kafkajs/src/broker/index.js';
import Encoder from 'kafkajs/src/protocol/encoder.js';
import errors from 'kafkajs/src/protocol/error.js';
import Produce from 'kafkajs/src/protocol/requests/produce/index.js';
import { type BrokerConnections, cutConnections, cutUnlessAnswered } from './cut-hanging-broker.ts';
import { type Carrier, EncodedBatch } from './encoded-batch.ts';
import { isRecordsFault } from './publish-error.ts';

interface ProduceCall {
  readonly acks: number;
  readonly timeout: number;
  readonly producerId: string;
  readonly producerEpoch: number;
  readonly topicData: readonly TopicData[];
}

interface TopicData {
  readonly topic: string;
  readonly partitions: readonly {
    readonly partition: number;
    readonly firstSequence: number;
    readonly messages: unknown;
  }[];
}

interface ProduceAnswer {
  readonly topics: readonly {
    readonly topicName: string;
    readonly partitions: readonly { readonly partition: number; readonly errorCode: number }[];
  }[];
}

interface ProtocolRequest {
  readonly request: object;
  readonly response: {
    readonly decode: unknown;
    readonly parse: (answer: ProduceAnswer) => Promise<unknown>;
  };
}

interface BrokerInternals extends BrokerConnections {
  readonly connectionPool: BrokerConnections['connectionPool'] & {
    send(request: ProtocolRequest): Promise<unknown>;
  };
  lookupRequest(apiKey: number, definition: unknown): (call: ProduceCall) => ProtocolRequest;
  produce(call: ProduceCall): Promise<unknown>;
  disconnect(): Promise<void>;
}

const produceApiKey = 0;
/** A leader that works answers in time that it could not store a batch in time. */
const answerMarginMs = 1000;

let isExtended = false;

/**
 * kafkajs encodes each field of each record into a buffer of its own, which halves the rate with five headers. Batches
 * that are encoded already are written as they are; all around them, from sequence numbers to retries, stays kafkajs's.
 */
export const letBrokersTakeEncodedBatches = (): void => {
  if (isExtended) return;
  isExtended = true;
  const prototype = Broker.prototype as BrokerInternals;
  const produce = prototype.produce;
  prototype.produce = function (this: BrokerInternals, call) {
    return isEncoded(call) ? produceEncoded(this, call) : produce.call(this, call);
  };
};

const isEncoded = ({ topicData }: ProduceCall): boolean =>
  topicData.some(({ partitions }) => partitions.some(({ messages }) => messages instanceof EncodedBatch));

const produceEncoded = async (broker: BrokerInternals, call: ProduceCall): Promise<unknown> => {
  const { request, response } = broker.lookupRequest(produceApiKey, Produce)(call);
  const batches = batchesOf(call);
  const carrier = carrierOf(broker);
  try {
    const answered = broker.connectionPool.send({
      request: { ...request, encode: async () => encodeCall(call, carrier) },
      response: {
        decode: response.decode,
        parse: async (answer) => {
          noteAnswers(batches, answer);
          return answer;
        },
      },
    });
    return await cutUnlessAnswered(broker, call.timeout + answerMarginMs, answered);
  } catch (error) {
    // As kafkajs does for every request: the next attempt is to connect anew.
    if (error instanceof Error && error.name === 'KafkaJSConnectionClosedError') await broker.disconnect();
    throw error;
  }
};

const carrierOf = (broker: BrokerInternals): Carrier => ({
  cut: () => cutConnections(broker, 'The producer was given up'),
});

const batchesOf = ({ topicData }: ProduceCall): ReadonlyMap<string, EncodedBatch> =>
  new Map(
    topicData.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, messages }) => [`${topic}/${partition}`, messages as EncodedBatch]),
    ),
  );

/** Produce requests from version 3 on, which is the oldest that Kafka 4 knows, up to kafkajs's newest. */
const encodeCall = (call: ProduceCall, carrier: Carrier): unknown => {
  const parts: Buffer[] = [];
  const state = { producerId: BigInt(call.producerId), producerEpoch: call.producerEpoch };
  parts.push(
    new Encoder()
      .writeString(null)
      .writeInt16(call.acks)
      .writeInt32(call.timeout)
      .writeInt32(call.topicData.length).buffer,
  );
  for (const { topic, partitions } of call.topicData) {
    parts.push(new Encoder().writeString(topic).writeInt32(partitions.length).buffer);
    for (const { partition, messages, firstSequence } of partitions) {
      const batch = messages as EncodedBatch;
      const sealed = batch.seal({ ...state, firstSequence }, carrier);
      batch.state = { kind: 'sent' };
      parts.push(new Encoder().writeInt32(partition).writeInt32(sealed.length).buffer, sealed);
    }
  }
  return asEncoder(parts);
};

/** kafkajs copies what an encoder holds into the request; handing over the parts spares one more copy of all records. */
const asEncoder = (parts: readonly Buffer[]): unknown => ({
  buf: parts[0],
  buffer: {
    length: parts.reduce((sum, { length }) => sum + length, 0),
    copy: (target: Buffer, offset: number) => {
      let at = offset;
      for (const part of parts) {
        target.set(part, at);
        at += part.length;
      }
    },
  },
});

const noError = 0;
const duplicateSequence = 46;

/** kafkajs would only tell the first error, and not whose it is. */
const noteAnswers = (batches: ReadonlyMap<string, EncodedBatch>, answer: ProduceAnswer): void => {
  const failures: (Error & { retriable: boolean })[] = [];
  for (const { topicName, partitions } of answer.topics) {
    for (const { partition, errorCode } of partitions) {
      const batch = batches.get(`${topicName}/${partition}`);
      if (!batch) continue;
      // A duplicate is a batch that came through at an earlier attempt whose answer was lost.
      if (errorCode === noError || errorCode === duplicateSequence) {
        batch.state = { kind: 'acknowledged' };
      } else {
        const error = errors.createErrorFromCode(errorCode);
        batch.state = { kind: 'failed', reason: error.type, isRefused: isRecordsFault(error.type) };
        failures.push(error);
      }
    }
  }
  // While one of them cannot succeed there is no use in repeating the others.
  const worst = failures.find(({ retriable }) => !retriable) ?? failures[0];
  if (worst) throw worst;
};
