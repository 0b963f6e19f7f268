import { tcpExchange } from '../../tcp-exchange.ts';

const timeoutMs = 1000;
const metadataApi = 3;
/** The newest version before the protocol's compact encoding, which would only make this longer. */
const metadataVersion = 8;

/**
 * The ids of the brokers that are up, as one broker knows them. A broker takes connections before it has
 * joined the cluster, so an open port alone would say too little.
 */
export const readBrokerIds = async (port: number): Promise<readonly number[]> => {
  const answer = await tcpExchange(
    { host: '127.0.0.1', port },
    { timeoutMs, send: metadataRequest(), isComplete: isWholeFrame },
  );
  return brokerIdsIn(answer);
};

const isWholeFrame = (received: Buffer): boolean =>
  received.length >= 4 && received.length >= 4 + received.readInt32BE(0);

const metadataRequest = (): Buffer => {
  const body = Buffer.alloc(17);
  body.writeInt16BE(metadataApi, 0);
  body.writeInt16BE(metadataVersion, 2);
  body.writeInt32BE(1, 4); // correlation id
  body.writeInt16BE(-1, 8); // no client id
  body.writeInt32BE(0, 10); // no topics
  body.writeUInt8(0, 14); // no topic gets created
  body.writeUInt8(0, 15); // no list of what the cluster allows
  body.writeUInt8(0, 16); // nor of what a topic allows
  const frame = Buffer.alloc(4);
  frame.writeInt32BE(body.length);
  return Buffer.concat([frame, body]);
};

/** After size, correlation id and throttle time: an array of id, host, port and rack. */
const brokerIdsIn = (answer: Buffer): number[] => {
  const count = answer.readInt32BE(12);
  const ids: number[] = [];
  let position = 16;
  for (let index = 0; index < count; index++) {
    ids.push(answer.readInt32BE(position));
    const hostLength = answer.readInt16BE(position + 4);
    const rackPosition = position + 6 + hostLength + 4;
    const rackLength = Math.max(0, answer.readInt16BE(rackPosition));
    position = rackPosition + 2 + rackLength;
  }
  return ids;
};
