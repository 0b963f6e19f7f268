import type { ClientBase } from 'pg';
import { OperatorError } from '../operator-error.ts';

/** pg_snapshot and xid8, which the relay's cursor is made of, are complete from 14 on. */
const oldestSupportedVersion = 140_000;

export const requireSupportedServer = async (client: ClientBase): Promise<void> => {
  const { rows } = await client.query<{ version_number: string; version: string }>(
    `select current_setting('server_version_num') as version_number, current_setting('server_version') as version`,
  );
  const server = rows[0];
  if (server && Number(server.version_number) >= oldestSupportedVersion) return;
  throw new OperatorError(`PostgreSQL ${server?.version ?? 'of an unknown version'} is not supported`, {
    remedy: 'Point DATABASE_URL at PostgreSQL 14 or newer, or leave it out to use the embedded server',
  });
};
