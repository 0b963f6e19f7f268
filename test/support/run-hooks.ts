import { Socket } from 'node:net';
import { stopSharedStack } from './stack.ts';

/** What a process may still hold when all is over: its own streams. */
const ownResources = new Set(['TTYWrap', 'PipeWrap', 'FSReqCallback', 'Immediate']);
/** Sockets whose servers have just been stopped take a moment to notice, longer on a busy machine. */
const settleMs = 15_000;

/** Node's own list; some of them are sockets that were destroyed, whose handles it has not let go of yet. */
const activeSockets = (): readonly Socket[] => {
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): readonly object[] };
  return handles.call(process).filter((handle) => handle instanceof Socket);
};

/** Whoever destroys a socket has closed its client: only those that are open count. */
const leftovers = (): readonly string[] => {
  let destroyed = activeSockets().filter((socket) => socket.destroyed).length;
  return process
    .getActiveResourcesInfo()
    .filter((resource) => !ownResources.has(resource))
    .filter((resource) => resource !== 'TCPSocketWrap' || destroyed-- <= 0);
};

/** Where open sockets lead to: it tells which client was left open. */
const openSockets = (): readonly string[] =>
  activeSockets()
    .filter((socket) => !socket.destroyed)
    .map(({ localPort, remoteAddress, remotePort }) =>
      JSON.stringify({ localPort, remoteAddress, remotePort }),
    );

/** The run fails when a test has left a pool, a consumer, a server or a timer behind. */
export const mochaGlobalTeardown = async (): Promise<void> => {
  await stopSharedStack();
  const deadline = Date.now() + settleMs;
  while (leftovers().length > 0 && Date.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, 20));
  const leaked = leftovers();
  if (leaked.length === 0) return;
  process.stderr.write(`\nLeaked handles: ${leaked.join(', ')}\n${openSockets().join('\n')}\n`);
  process.exit(70);
};
