import { Socket } from 'node:net';

/**
 * Loaded into a process before its own code (`node --import`): connections to some ports of this machine go to others,
 * as a packet filter would do it. Brokers tell their clients an address of their own, so naming a proxy would not be enough.
 */
export const redirectedPortsVariable = 'SPEC_REDIRECTED_PORTS';

const redirected: ReadonlyMap<number, number> = new Map(
  (process.env[redirectedPortsVariable] ?? '')
    .split(',')
    .filter((pair) => pair !== '')
    .map((pair) => pair.split(':').map(Number) as [number, number]),
);

const redirect = (port: unknown): unknown => redirected.get(Number(port)) ?? port;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

/** A port, options with a port, or what `net.connect` has made of them: options and a callback in an array. */
const withRedirection = (target: unknown): unknown => {
  if (Array.isArray(target)) {
    const [options] = target;
    if (isObject(options)) options.port = redirect(options.port);
    return target;
  }
  return isObject(target) ? { ...target, port: redirect(target.port) } : redirect(target);
};

type Connect = (this: Socket, target: unknown, ...rest: unknown[]) => Socket;

const connect = Socket.prototype.connect as Connect;
const connectElsewhere: Connect = function (target, ...rest) {
  return connect.call(this, withRedirection(target), ...rest);
};
if (redirected.size > 0) Object.assign(Socket.prototype, { connect: connectElsewhere });
