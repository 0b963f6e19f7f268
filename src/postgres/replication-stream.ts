import type { Client } from 'pg';
import { LogicalReplicationService, type Pgoutput, PgoutputPlugin } from 'pg-logical-replication';
import { InsertedRow } from './inserted-row.ts';
import { formatLsn, parseLsn } from './lsn.ts';

/** What the log says, in its order. Transactions come one after the other, in the order of their commits. */
export interface ReplicationListener {
  onBegin(commitLsn: bigint): void;
  /** The row is to be read at once: the same object reads the next one. */
  onInsert(row: InsertedRow): void;
  onCommit(endLsn: bigint): void;
  /** Everything that was committed before this position has been handed over. */
  onKeepalive(lsn: bigint): void;
  /** The connection is gone; called once, and not after `close`. */
  onEnd(error: Error): void;
}

export interface ReplicationStreamOptions {
  readonly url: string;
  readonly applicationName: string;
  readonly slot: string;
  readonly publication: string;
  /** What the slot has confirmed so far: never to be told a smaller one. */
  readonly confirmedLsn: bigint;
  readonly connectTimeoutMs: number;
  /** How often the server hears from us; it hangs up on a client that is silent for `wal_sender_timeout`. */
  readonly statusIntervalMs: number;
  /** A server that does not even answer a ping for so long is gone. */
  readonly silenceMaxMs: number;
  readonly listener: ReplicationListener;
}

export interface ReplicationStream {
  /** Stops reading the socket: the server keeps the rest. */
  pause(): void;
  resume(): void;
  /** Everything committed before this position may be forgotten by the server. */
  acknowledge(lsn: bigint): void;
  close(): Promise<void>;
}

/** Resolves when the server has begun to stream, and rejects with its error when it refuses. */
export const openReplicationStream = async (
  options: ReplicationStreamOptions,
): Promise<ReplicationStream> => {
  const { listener } = options;
  let over = false;
  let heardAt = Date.now();
  let confirmed = options.confirmedLsn;
  let timer: NodeJS.Timeout | undefined;
  let isPaused = false;

  // Acknowledging is ours alone: by itself the library confirms what it has received, settled or not.
  const service = new LogicalReplicationService(
    {
      connectionString: options.url,
      application_name: options.applicationName,
      connectionTimeoutMillis: options.connectTimeoutMs,
      keepAlive: true,
    },
    { acknowledge: { auto: false, timeoutSeconds: 0 } },
  );

  const end = (error: Error): void => {
    if (over) return;
    over = true;
    clearInterval(timer);
    service.destroy().catch(() => undefined);
    listener.onEnd(error);
  };

  const report = (ping: boolean): void => {
    if (over || confirmed === 0n) return;
    // The library adds one to what it is given. A commit record may begin exactly where the one before it ends, and
    // the server drops what begins before the confirmed position: with that one byte more a transaction would be lost.
    service.acknowledge(formatLsn(confirmed - 1n), ping).catch(end);
  };

  const plugin = new BinaryPgoutput(options.publication, (message) => {
    if (over) return;
    heardAt = Date.now();
    if (message instanceof InsertedRow) listener.onInsert(message);
    else if (message instanceof Error) end(message);
    else tell(listener, message);
  });
  service.on('error', end);
  service.on('heartbeat', (lsn, _timestamp, shouldRespond) => {
    if (over) return;
    heardAt = Date.now();
    listener.onKeepalive(parseLsn(lsn));
    if (shouldRespond) report(false);
  });

  const started = new Promise<void>((resolve) => service.on('start', resolve));
  const ended = service.subscribe(plugin, options.slot).then(() => {
    throw new Error('The server ended the replication stream');
  });
  try {
    await Promise.race([started, ended]);
  } catch (error) {
    over = true;
    await service.destroy();
    throw error;
  }
  ended.catch(end);
  timer = setInterval(() => {
    const silentMs = Date.now() - heardAt;
    if (isPaused) heardAt = Date.now();
    else if (silentMs > options.silenceMaxMs) {
      end(new Error(`The server has not been heard of for ${silentMs} ms`));
    }
    report(!isPaused && silentMs > options.statusIntervalMs);
  }, options.statusIntervalMs);

  return {
    pause: () => {
      isPaused = true;
      plugin.socket?.pause();
    },
    resume: () => {
      isPaused = false;
      plugin.socket?.resume();
    },
    acknowledge: (lsn) => {
      if (lsn <= confirmed) return;
      confirmed = lsn;
      report(false);
    },
    close: async () => {
      over = true;
      clearInterval(timer);
      await service.destroy();
    },
  };
};

const tell = (listener: ReplicationListener, message: Pgoutput.Message): void => {
  switch (message.tag) {
    case 'begin':
      listener.onBegin(parseLsn(message.commitLsn ?? '0/0'));
      break;
    case 'commit':
      listener.onCommit(parseLsn(message.commitEndLsn ?? '0/0'));
      break;
    default:
    // Descriptions of relations and types; the publication has nothing but inserts.
  }
};

type Received = Pgoutput.Message | InsertedRow | Error;

const insertTag = 0x49;

/** The library's plugin with values in binary, so that a payload is not written out as hex and read back. */
class BinaryPgoutput extends PgoutputPlugin {
  #client: Client | undefined;
  readonly #receive: (received: Received) => void;
  readonly #rows = new Map<number, InsertedRow>();

  constructor(publication: string, receive: (received: Received) => void) {
    super({ protoVersion: 1, publicationNames: [publication] });
    this.#receive = receive;
  }

  get socket() {
    return this.#client?.connection.stream;
  }

  override start(client: Client, slot: string, lsn: string): ReturnType<PgoutputPlugin['start']> {
    this.#client = client;
    const publications = this.options.publicationNames.join(',');
    return client.query(
      `START_REPLICATION SLOT "${slot}" LOGICAL ${lsn} (proto_version '1', publication_names '${publications}', binary 'true')`,
    );
  }

  override parse(buffer: Buffer): Pgoutput.Message {
    try {
      if (buffer[0] === insertTag) this.#receive(this.#readInsert(buffer));
      else this.#receive(this.#readOther(buffer));
    } catch (error) {
      // Thrown from here it would end the process: this runs inside the socket's data event.
      this.#receive(error as Error);
    }
    return handled;
  }

  #readInsert(buffer: Buffer): InsertedRow {
    const row = this.#rows.get(buffer.readInt32BE(1));
    if (!row) throw new Error('An insert into a relation that was not described before');
    // pg reuses the buffer it reads into, so a row that is kept needs a copy of its own.
    return row.read(Buffer.from(buffer));
  }

  #readOther(buffer: Buffer): Pgoutput.Message {
    const message = super.parse(buffer);
    if (message.tag === 'relation') this.#rows.set(message.relationOid, new InsertedRow(message));
    return message;
  }
}

/** The library hands on what its plugin returns; nobody listens there. */
const handled: Pgoutput.Message = { tag: 'type', typeOid: 0, typeSchema: '', typeName: '' };
