import { Kafka, logLevel } from 'kafkajs';
import pg from 'pg';
import { createClient } from 'redis';

export const query = async (
  databaseUrl: string,
  sql: string,
): Promise<readonly Record<string, unknown>[]> => {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    return (await client.query(sql)).rows as Record<string, unknown>[];
  } finally {
    await client.end();
  }
};

type Admin = ReturnType<Kafka['admin']>;

export const withAdmin = async <T>(
  brokers: readonly string[],
  work: (admin: Admin) => Promise<T>,
): Promise<T> => {
  const kafka = new Kafka({
    clientId: 'stack-probe',
    brokers: [...brokers],
    connectionTimeout: 30_000,
    logLevel: logLevel.NOTHING,
  });
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
};

export const brokerIds = (brokers: readonly string[]): Promise<number[]> =>
  withAdmin(brokers, async (admin) => {
    const cluster = await admin.describeCluster();
    return cluster.brokers.map(({ nodeId }) => nodeId).toSorted();
  });

export const pingRedis = async (url: string): Promise<string> => {
  const client = createClient({ url, socket: { reconnectStrategy: false } });
  await client.connect();
  try {
    return await client.ping();
  } finally {
    client.destroy();
  }
};

export const subjects = async (registryUrl: string): Promise<string[]> => {
  const response = await fetch(`${registryUrl}/subjects`, { headers: { connection: 'close' } });
  return (await response.json()) as string[];
};

export const registerSchema = async (registryUrl: string, subject: string): Promise<void> => {
  const response = await fetch(`${registryUrl}/subjects/${subject}/versions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({
      schema: '{"type":"record","name":"Probe","fields":[{"name":"id","type":"string"}]}',
    }),
  });
  if (!response.ok) throw new Error(`the registry answers ${response.status}: ${await response.text()}`);
  await response.body?.cancel();
};
