import { execFile } from 'node:child_process';
import { chownSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { chooseFreePorts } from '../../src/infra/embedded/free-ports.ts';
import { ManagedServer } from '../../src/infra/embedded/managed-server.ts';
import { findPostgresBinaries } from '../../src/infra/embedded/postgres/postgres-binaries.ts';
import {
  ensurePostgresCluster,
  type PostgresCluster,
  postgresUser,
} from '../../src/infra/embedded/postgres/postgres-cluster.ts';
import { postgresServer, postgresUrl } from '../../src/infra/embedded/postgres/postgres-server.ts';
import { findServerUser, type ServerUser } from '../../src/infra/embedded/postgres/server-user.ts';
import { Supervisor } from '../../src/infra/embedded/supervisor.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { eventually } from './eventually.ts';
import { silentLog } from './silent-log.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

const host = '127.0.0.1';
const startTimeoutMs = 60_000;
/** The slot through which the standby keeps the primary's log. */
const standbySlot = 'spec_standby';

const quickSettings = [
  // The processes die here, never the machine: what they have written stays written.
  'fsync=off',
  'shared_buffers=16MB',
  'wal_retrieve_retry_interval=100ms',
  'hot_standby_feedback=on',
  'wal_receiver_status_interval=1s',
];

export interface PostgresPairOptions {
  /** Further settings of both servers, such as `sync_replication_slots=on`. */
  readonly settings?: readonly string[];
}

export interface PostgresPair {
  /** The address of whichever server is the primary; it stays the same over a promotion. */
  readonly databaseUrl: string;
  /** Until the standby has everything that the primary has committed so far. */
  catchUp(): Promise<void>;
  /** What the primary commits from now on does not reach the standby, also not when that one is promoted. */
  holdReplication(): void;
  letReplicationGo(): void;
  /** Ends the primary at once, breaks every connection off, and makes the standby the primary. */
  promote(): Promise<void>;
  /** After a promotion: a new standby of the new primary. */
  addStandby(): Promise<void>;
  close(): Promise<void>;
}

interface Server {
  readonly process: ManagedServer;
  readonly data: string;
  readonly port: number;
  /** On a standby: the way by which the log comes. */
  readonly link?: TcpProxy;
}

/** A primary and a standby that streams from it, behind one address. The database millrace is there, and empty. */
export const startPostgresPair = async ({
  settings = [],
}: PostgresPairOptions = {}): Promise<PostgresPair> => {
  const user = await findServerUser();
  const binaries = await findPostgresBinaries(user);
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'millrace-pair-')));
  if (user) chownSync(home, user.uid, user.gid);
  const supervisor = await Supervisor.open({
    log: silentLog(),
    cwd: home,
    env: process.env,
    onChange: () => undefined,
  });
  let made = 0;
  let held: PromiseWithResolvers<void> | undefined;

  const clusterAt = (data: string): PostgresCluster => ({
    data,
    passwordFile: join(home, 'password'),
    binaries,
    user,
  });
  const startServer = async (data: string, more: readonly string[] = []): Promise<Omit<Server, 'link'>> => {
    const { port = 0 } = await chooseFreePorts(['port'], {});
    const spec = postgresServer(clusterAt(data), { port, logs: home });
    const args = [...quickSettings, ...settings, ...more].flatMap((setting) => ['-c', setting]);
    const server = new ManagedServer(
      { ...spec, args: [...spec.args, ...args], logFile: `${data}.log` },
      { supervisor, startTimeoutMs, onUnexpectedExit: () => undefined },
    );
    await server.start();
    return { process: server, data, port };
  };
  const nextData = (): string => join(home, `server-${++made}`);

  const firstData = nextData();
  const password = await ensurePostgresCluster(clusterAt(firstData), { supervisor });
  const urlOf = (port: number): string => postgresUrl({ password, port, database: 'millrace' });
  const ask = <T>(server: Pick<Server, 'port'>, routine: (client: pg.Client) => Promise<T>): Promise<T> =>
    withClient(urlOf(server.port), routine);

  const startStandby = async (primary: Server): Promise<Server> => {
    const data = nextData();
    await ask(primary, (client) => copyCluster(client, { from: primary.data, to: data, user }));
    const link = await startTcpProxy({ host, port: primary.port }, () => ({
      fromServer: () => held?.promise,
    }));
    const conninfo = `host=${host} port=${link.port} user=${postgresUser} password=${password} dbname=millrace`;
    const server = await startServer(data, [
      `primary_conninfo=${conninfo}`,
      `primary_slot_name=${standbySlot}`,
    ]);
    return { ...server, link };
  };

  let primary: Server = await startServer(firstData);
  // Every standby is a copy of all there is.
  await ask(primary, (client) => client.query('drop database registry'));
  let standby: Server | undefined = await startStandby(primary);
  const front = await startTcpProxy({ host, port: primary.port });
  const requireStandby = (): Server => {
    if (!standby) throw new Error('There is no standby after a promotion; add one first');
    return standby;
  };
  const letReplicationGo = (): void => {
    held?.resolve();
    held = undefined;
  };

  /** Nobody outside sees anything of what it does in its last moments. */
  const end = async (server: Server): Promise<void> => {
    const { pid } = server.process;
    // Immediate shutdown. Unlike SIGKILL it leaves no shared memory behind.
    if (pid !== undefined) process.kill(pid, 'SIGQUIT');
    await server.process.stop();
    await server.link?.close();
    rmSync(server.data, { recursive: true, force: true });
  };

  const catchUp = async (): Promise<void> => {
    const target = requireStandby();
    const lsn = await ask(primary, async (client) => {
      // A record of our own: the end of the log may lie behind the header of a page that is not begun yet.
      const { rows } = await client.query(
        `select pg_logical_emit_message(true, 'spec', 'catch up')::text as lsn`,
      );
      return rows[0].lsn as string;
    });
    await ask(target, (client) =>
      eventually(
        async () => {
          const { rows } = await client.query(
            'select pg_wal_lsn_diff($1, pg_last_wal_replay_lsn())::float as behind',
            [lsn],
          );
          if (rows[0].behind > 0) throw new Error(`the standby is ${rows[0].behind} bytes behind`);
        },
        { timeoutMs: startTimeoutMs, what: 'the standby catches up' },
      ),
    );
  };

  await catchUp();
  return {
    databaseUrl: urlOf(front.port),
    catchUp,
    holdReplication: () => {
      held ??= Promise.withResolvers();
    },
    letReplicationGo,
    promote: async () => {
      const next = requireStandby();
      next.link?.refuse();
      front.refuse();
      await end(primary);
      await ask(next, (client) => client.query('select pg_promote(true, 60)'));
      letReplicationGo();
      primary = next;
      standby = undefined;
      front.pointAt({ host, port: next.port });
      front.accept();
    },
    addStandby: async () => {
      standby = await startStandby(primary);
      await catchUp();
    },
    close: async () => {
      letReplicationGo();
      await front.close();
      for (const server of [standby, primary]) if (server) await end(server);
      await supervisor.close();
      rmSync(home, { recursive: true, force: true });
    },
  };
};

/** For one spec file: a pair with a migrated database, closed when the file is through. */
export const usePostgresPair = (options: PostgresPairOptions = {}): (() => PostgresPair) => {
  let pair: PostgresPair | undefined;
  before(async function () {
    this.timeout(120_000);
    pair = await startPostgresPair(options);
    await migrate(pair.databaseUrl, { log: silentLog(), connectTimeoutMs: 30_000 });
  });
  after(async function () {
    this.timeout(60_000);
    await pair?.close();
  });
  return () => {
    if (!pair) throw new Error('The pair is there once the hooks have run');
    return pair;
  };
};

const withClient = async <T>(url: string, routine: (client: pg.Client) => Promise<T>): Promise<T> => {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await routine(client);
  } finally {
    await client.end();
  }
};

/** A base backup of a running server, as pg_basebackup would make it: the package has no such program. */
const copyCluster = async (
  client: pg.Client,
  { from, to, user }: { from: string; to: string; user: ServerUser | undefined },
): Promise<void> => {
  await client.query(
    `select pg_create_physical_replication_slot('${standbySlot}', true)
     where not exists (select from pg_replication_slots where slot_name = '${standbySlot}')`,
  );
  await client.query(`select pg_backup_start('spec', fast => true)`);
  await copyFolder(from, to, user);
  const { rows } = await client.query('select labelfile from pg_backup_stop(wait_for_archive => false)');
  for (const [name, text] of [
    ['backup_label', rows[0].labelfile],
    ['standby.signal', ''],
  ] as const) {
    writeFileSync(join(to, name), text, { mode: 0o600 });
    if (user) chownSync(join(to, name), user.uid, user.gid);
  }
};

/** The server makes what is in these by itself, or gets it from its primary. */
const emptyFolders = ['pg_wal', 'pg_replslot', 'pg_dynshmem', 'pg_notify', 'pg_serial', 'pg_snapshots'];
const ownFiles = ['postmaster.pid', 'postmaster.opts', 'standby.signal', 'backup_label'];

const copyFolder = async (from: string, to: string, user: ServerUser | undefined): Promise<void> => {
  for (const folder of [to, ...emptyFolders.map((name) => join(to, name))]) {
    mkdirSync(folder, { mode: 0o700 });
    if (user) chownSync(folder, user.uid, user.gid);
  }
  const names = readdirSync(from).filter((name) => !emptyFolders.includes(name) && !ownFiles.includes(name));
  const sources = names.map((name) => join(from, name));
  await promisify(execFile)('cp', ['-a', ...sources, to], { env: { ...process.env, LC_ALL: 'C' } }).catch(
    ignoreWhatWasGone,
  );
};

/** The server goes on working, and removes a file now and then. */
const ignoreWhatWasGone = (error: { stderr?: string }): void => {
  const complaints = (error.stderr ?? '').split('\n').filter((line) => line !== '');
  if (complaints.length === 0 || !complaints.every((line) => line.endsWith('No such file or directory'))) {
    throw error;
  }
};
