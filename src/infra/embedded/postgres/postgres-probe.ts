import { tcpExchange } from '../../tcp-exchange.ts';

const timeoutMs = 1000;
const protocolVersion = 0x0003_0000;

/**
 * Begins to log in, as pg_isready does: a server that asks for the password takes connections, one that is
 * starting up or recovering answers with an error instead.
 */
export const isPostgresReady = async (target: { port: number; user: string }): Promise<boolean> => {
  try {
    const answer = await tcpExchange(
      { host: '127.0.0.1', port: target.port },
      { timeoutMs, send: startupMessage(target.user) },
    );
    return answer.toString('latin1', 0, 1) === 'R';
  } catch {
    return false;
  }
};

const startupMessage = (user: string): Buffer => {
  const parameters = Buffer.from(`user\0${user}\0database\0${user}\0\0`);
  const head = Buffer.alloc(8);
  head.writeInt32BE(head.length + parameters.length, 0);
  head.writeInt32BE(protocolVersion, 4);
  return Buffer.concat([head, parameters]);
};
