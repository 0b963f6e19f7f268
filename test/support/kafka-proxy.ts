import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

/** Called before bytes go on; they wait for the promise. */
export interface KafkaHooks {
  /** A request with records has come and the broker does not have it yet; so many came before it. */
  onRecords: (countBefore: number) => void | Promise<void>;
  /** The broker has answered a request with records and the client does not know it yet. */
  onAcknowledgement: (countBefore: number) => void | Promise<void>;
  /** Any bytes in either direction: for a slow network. */
  onBytes: () => void | Promise<void>;
}

export interface KafkaProxy extends TcpProxy {
  readonly hooks: KafkaHooks;
  /** Nothing special happens any more. */
  heal(): void;
  /** Requests with records that the broker has answered. */
  acknowledged(): number;
}

const noHooks: KafkaHooks = {
  onRecords: () => undefined,
  onAcknowledgement: () => undefined,
  onBytes: () => undefined,
};

const produceApiKey = 0;

/** A network to one broker that knows which requests carry records. */
export const startKafkaProxy = async (address: string): Promise<KafkaProxy> => {
  const [host = '', port = ''] = address.split(':');
  let sent = 0;
  let acknowledged = 0;
  const hooks = { ...noHooks };
  const proxy = await startTcpProxy({ host, port: Number(port) }, () => {
    const underWay = new Set<number>();
    const requests = createFrameReader(requestHeadBytes);
    const answers = createFrameReader(answerHeadBytes);
    return {
      fromClient: async (chunk) => {
        await hooks.onBytes();
        for (const head of requests(chunk)) {
          if (head.readInt16BE(0) !== produceApiKey) continue;
          underWay.add(head.readInt32BE(4));
          await hooks.onRecords(sent++);
        }
      },
      fromServer: async (chunk) => {
        await hooks.onBytes();
        for (const head of answers(chunk)) {
          if (underWay.delete(head.readInt32BE(0))) await hooks.onAcknowledgement(acknowledged++);
        }
      },
    };
  });
  return {
    ...proxy,
    hooks,
    heal: () => {
      Object.assign(hooks, noHooks);
      proxy.accept();
    },
    acknowledged: () => acknowledged,
  };
};

/** Api key, api version, correlation id. */
const requestHeadBytes = 8;
/** Correlation id. */
const answerHeadBytes = 4;
const sizeBytes = 4;

/** The first bytes of each frame, as soon as they are there, however the stream is cut into chunks. */
const createFrameReader = (headBytes: number): ((chunk: Buffer) => readonly Buffer[]) => {
  let begun = Buffer.alloc(0);
  let restOfFrame = 0;
  return (chunk) => {
    const heads: Buffer[] = [];
    let at = 0;
    while (at < chunk.length) {
      const skipped = Math.min(restOfFrame, chunk.length - at);
      restOfFrame -= skipped;
      at += skipped;
      const wanted = sizeBytes + headBytes - begun.length;
      const piece = chunk.subarray(at, at + wanted);
      begun = Buffer.concat([begun, piece]);
      at += piece.length;
      if (begun.length < sizeBytes + headBytes) continue;
      heads.push(begun.subarray(sizeBytes));
      restOfFrame = begun.readInt32BE(0) - headBytes;
      begun = Buffer.alloc(0);
    }
    return heads;
  };
};
