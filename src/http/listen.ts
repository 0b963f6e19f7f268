import { createServer } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { OperatorError } from '../operator-error.ts';

/** Listens and answers with the URL. */
export const listen = async (
  server: FastifyInstance,
  { host, port }: { host: string; port: number },
): Promise<string> => {
  try {
    return await server.listen({ host, port });
  } catch (cause) {
    throw portError({ host, port }, cause as NodeJS.ErrnoException);
  }
};

/** Asked before anything is started: a port in use is the operator's to decide, and better known before than after. */
export const requireFreePort = ({ host, port }: { host: string; port: number }): Promise<void> =>
  new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', (cause) => reject(portError({ host, port }, cause)));
    probe.listen({ host, port }, () => probe.close(() => resolve()));
  });

const portError = (address: { host: string; port: number }, cause: NodeJS.ErrnoException): Error => {
  if (cause.syscall === undefined) return cause;
  const reason = cause.code === 'EADDRINUSE' ? 'is in use' : `cannot be listened on (${cause.message})`;
  return new OperatorError(`Port ${address.port} on ${address.host} ${reason}`, {
    remedy: 'Stop what is using it, or choose another with PORT (0 takes any free one)',
    cause,
  });
};
