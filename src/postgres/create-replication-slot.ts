import pg from 'pg';

export interface CreatedSlot {
  readonly consistentLsn: string;
  /** What was committed before the slot begins, as pg_snapshot text. Everything else will come through the slot. */
  readonly snapshot: string;
}

export interface SlotSession {
  /** A transaction that was open before has to end first; `lock timeout` bounds the wait (55P03). */
  create(slot: string): Promise<CreatedSlot>;
}

export interface SlotSessionOptions {
  readonly url: string;
  readonly applicationName: string;
  readonly slot: string;
  readonly connectTimeoutMs: number;
  readonly waitMaxMs: number;
}

/** Runs the routine while no other process makes or replaces this slot. */
export const withSlotSession = async <T>(
  options: SlotSessionOptions,
  routine: (session: SlotSession) => Promise<T>,
): Promise<T> => {
  const client = new pg.Client({
    connectionString: options.url,
    application_name: options.applicationName,
    connectionTimeoutMillis: options.connectTimeoutMs,
    ...({ replication: 'database' } satisfies ReplicationSetting),
  });
  // The failure also rejects the query under way; without a listener it would end the process first.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query(`set lock_timeout = ${options.waitMaxMs}`);
    await client.query(`select pg_advisory_lock(hashtextextended('millrace slot ${options.slot}', 0))`);
    return await routine({ create: (slot) => createSlot(client, slot, options) });
  } finally {
    await client.end();
  }
};

/** pg passes it on in the startup packet; its types do not know it. */
interface ReplicationSetting {
  readonly replication: 'database';
}

const createSlot = async (
  client: pg.Client,
  slot: string,
  options: SlotSessionOptions,
): Promise<CreatedSlot> => {
  const { rows } = await client.query<{ consistent_point: string; snapshot_name: string }>(
    `CREATE_REPLICATION_SLOT "${slot}" LOGICAL pgoutput EXPORT_SNAPSHOT`,
  );
  const [created] = rows;
  if (!created) throw new Error('The server created a slot and did not say where it begins');
  // The exported snapshot lives until the next command on this connection: another one has to take it over now.
  const snapshot = await importSnapshot(created.snapshot_name, options);
  return { consistentLsn: created.consistent_point, snapshot };
};

const importSnapshot = async (name: string, options: SlotSessionOptions): Promise<string> => {
  const client = new pg.Client({
    connectionString: options.url,
    application_name: options.applicationName,
    connectionTimeoutMillis: options.connectTimeoutMs,
  });
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query('begin isolation level repeatable read read only');
    await client.query(`set transaction snapshot '${name}'`);
    const { rows } = await client.query<{ snapshot: string }>(
      'select pg_current_snapshot()::text as snapshot',
    );
    await client.query('rollback');
    const [row] = rows;
    if (!row) throw new Error('A query for one row answered without a row');
    return inOrder(row.snapshot);
  } finally {
    await client.end();
  }
};

/**
 * The snapshot of a slot may have its xmax below its xmin, which the type pg_snapshot refuses to read back. PostgreSQL
 * asks for xmin first: what is below it is visible, so nothing of what lies between the two is under way.
 */
export const inOrder = (snapshot: string): string => {
  const [xmin = '', xmax = ''] = snapshot.split(':');
  return BigInt(xmax) < BigInt(xmin) ? `${xmin}:${xmin}:` : snapshot;
};
