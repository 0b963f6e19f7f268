import { once } from 'node:events';
import { type AddressInfo, createServer, connect as open, type Socket } from 'node:net';

/** Looks at what passes through one connection, and may take its time: the bytes wait for it. */
export interface Passage {
  fromClient?(chunk: Buffer): void | Promise<void>;
  fromServer?(chunk: Buffer): void | Promise<void>;
}

export interface TcpProxy {
  readonly port: number;
  /** Breaks every connection off, as a network does: without a word to either side. */
  cut(): void;
  /** Until further notice nobody gets through, and whoever was through is cut. */
  refuse(): void;
  accept(): void;
  /** Connections from now on go to another server, as behind an address that moves. */
  pointAt(target: ProxyTarget): void;
  close(): Promise<void>;
}

export interface ProxyTarget {
  readonly host: string;
  readonly port: number;
}

interface Connection {
  readonly client: Socket;
  readonly server: Socket;
}

/** Stands in front of a server, so that specs can make a bad network. */
export const startTcpProxy = async (
  firstTarget: ProxyTarget,
  watch: () => Passage = () => ({}),
): Promise<TcpProxy> => {
  const connections = new Set<Connection>();
  let target = firstTarget;
  let isRefusing = false;

  const cut = (): void => {
    for (const { client, server } of connections) {
      client.resetAndDestroy();
      server.resetAndDestroy();
    }
  };

  const listener = createServer({ noDelay: true }, (client) => {
    client.on('error', () => undefined);
    if (isRefusing) {
      client.resetAndDestroy();
      return;
    }
    const server = open({ ...target, noDelay: true });
    const connection = { client, server };
    connections.add(connection);
    const passage = watch();
    carry(client, server, (chunk) => passage.fromClient?.(chunk));
    carry(server, client, (chunk) => passage.fromServer?.(chunk));
    for (const socket of [client, server]) {
      socket.on('error', () => undefined);
      socket.once('close', () => {
        connections.delete(connection);
        client.destroy();
        server.destroy();
      });
    }
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');

  return {
    port: (listener.address() as AddressInfo).port,
    cut,
    refuse: () => {
      isRefusing = true;
      cut();
    },
    accept: () => {
      isRefusing = false;
    },
    pointAt: (next) => {
      target = next;
    },
    close: async () => {
      isRefusing = true;
      cut();
      listener.close();
      await once(listener, 'close');
    },
  };
};

const drainedOrClosed = async (socket: Socket): Promise<void> => {
  const either = new AbortController();
  const { signal } = either;
  await Promise.race([once(socket, 'drain', { signal }), once(socket, 'close', { signal })]);
  // The listeners of the other one would pile up on a connection that is slow for long.
  either.abort();
};

/** One chunk after the other: a chunk that is held holds those behind it. */
const carry = (from: Socket, to: Socket, look: (chunk: Buffer) => void | Promise<void>): void => {
  const passOn = async (): Promise<void> => {
    for await (const chunk of from.iterator({ destroyOnReturn: false })) {
      await look(chunk as Buffer);
      if (to.destroyed) return;
      if (!to.write(chunk as Buffer)) await drainedOrClosed(to);
    }
    to.end();
  };
  // A connection that breaks ends its passage; both ends hear of it by themselves.
  passOn().catch(() => undefined);
};
