import { createKafka, type KafkaOptions } from './create-kafka.ts';

/** A broker that takes longer to answer is of no use, whatever the reason. */
const answerTimeoutMs = 5000;

/**
 * How many brokers of the cluster answer this process, each asked over a connection of its own: those that clients know
 * may be the very ones that hang. Never fails: a cluster that cannot be reached at all has none.
 */
export const countReachableBrokers = async (options: KafkaOptions): Promise<number> => {
  const ask = (address: string): Promise<readonly string[]> => askForBrokers(options, address);
  const answers = await Promise.all(options.brokers.map(ask));
  // The addresses that brokers tell may be other ones than those they were asked at.
  const told = new Set(answers.flat());
  const reached = await Promise.all([...told].map(ask));
  return reached.filter(({ length }) => length > 0).length;
};

/** The addresses of all brokers as this one knows them; none when it does not answer. */
const askForBrokers = async (options: KafkaOptions, address: string): Promise<readonly string[]> => {
  const kafka = createKafka({
    ...options,
    brokers: [address],
    connectTimeoutMs: answerTimeoutMs,
    requestTimeoutMs: answerTimeoutMs,
    retriesMax: 0,
  });
  const admin = kafka.admin();
  try {
    await admin.connect();
    const { brokers } = await admin.describeCluster();
    return brokers.map(({ host, port }) => `${host}:${port}`);
  } catch {
    return [];
  } finally {
    await admin.disconnect().catch(() => undefined);
  }
};
