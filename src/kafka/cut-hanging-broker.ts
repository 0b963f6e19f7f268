/** A broker of kafkajs, as far as its connections go. */
export interface BrokerConnections {
  readonly connectionPool: {
    readonly pool: readonly { readonly socket?: { destroy(error: Error): void } }[];
  };
}

/** With an error kafkajs notices, drops what waits in its queue, and ends the connection. */
export const cutConnections = ({ connectionPool }: BrokerConnections, why: string): void => {
  for (const { socket } of connectionPool.pool) socket?.destroy(new Error(why));
};

/**
 * A broker that hangs keeps its connections, and kafkajs asks it again and again. One whose connections are cut is a broker
 * that cannot be reached: kafkajs asks the others who leads its partitions now.
 */
export const cutUnlessAnswered = async <T>(
  broker: BrokerConnections,
  timeMs: number,
  work: Promise<T>,
): Promise<T> => {
  const timer = setTimeout(() => cutConnections(broker, `No answer within ${timeMs} ms`), timeMs);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
};
