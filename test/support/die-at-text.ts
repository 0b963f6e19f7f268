import { Socket } from 'node:net';

/**
 * Loaded into a process before its own code (`node --import`): the process ends at once, as by `kill -9`, when it is about
 * to write a certain text to a connection to one of some ports. So an event can be fatal without the code knowing of it.
 */
export const fatalTextVariable = 'SPEC_FATAL_TEXT';
export const fatalPortsVariable = 'SPEC_FATAL_PORTS';

const text = process.env[fatalTextVariable];
const ports = new Set((process.env[fatalPortsVariable] ?? '').split(',').map(Number));

type Write = (this: Socket, chunk: string | Uint8Array, ...rest: unknown[]) => boolean;

const write = Socket.prototype.write as Write;
const writeUnlessFatal: Write = function (chunk, ...rest) {
  if (text && ports.has(this.remotePort ?? 0) && Buffer.from(chunk as string).includes(text)) {
    process.kill(process.pid, 'SIGKILL');
  }
  return write.call(this, chunk, ...rest);
};
if (text) Object.assign(Socket.prototype, { write: writeUnlessFatal });
