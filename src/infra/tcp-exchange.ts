import { connect, type NetConnectOpts } from 'node:net';

/** Connects, and when there is something to say, says it and hands back the first bytes of the answer. */
export const tcpExchange = (
  target: NetConnectOpts,
  options: { timeoutMs: number; send?: Buffer | string; isComplete?: (received: Buffer) => boolean },
): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const socket = connect(target);
    let received = Buffer.alloc(0);
    const settle = (finish: () => void) => {
      clearTimeout(timer);
      socket.destroy();
      finish();
    };
    // The socket's own timeout only counts silence; this one also bounds a server that drips bytes.
    const timer = setTimeout(
      () => settle(() => reject(new Error(`no answer within ${options.timeoutMs} ms`))),
      options.timeoutMs,
    );
    socket.on('connect', () => {
      if (options.send === undefined) settle(() => resolve(received));
      else socket.write(options.send);
    });
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (options.isComplete?.(received) ?? true) settle(() => resolve(received));
    });
    socket.on('error', (error) => settle(() => reject(error)));
    socket.on('close', () => settle(() => reject(new Error('the connection was closed'))));
  });
