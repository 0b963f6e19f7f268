import { createServer, type Server, type Socket } from 'node:net';

const message = (type: string, ...parts: readonly Buffer[]): Buffer => {
  const body = Buffer.concat(parts);
  const head = Buffer.alloc(5);
  head.write(type, 0, 'latin1');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
};
const int16 = (value: number): Buffer => Buffer.from([value >> 8, value & 0xff]);
const int32 = (value: number): Buffer => {
  const buffer = Buffer.alloc(4);
  buffer.writeInt32BE(value);
  return buffer;
};
const text = (value: string): Buffer => Buffer.from(`${value}\0`);
const ready = message('Z', Buffer.from('I'));

const column = (name: string): Buffer =>
  Buffer.concat([text(name), int32(0), int16(0), int32(25), int16(-1), int32(-1), int16(0)]);
const cell = (value: string): Buffer => Buffer.concat([int32(value.length), Buffer.from(value)]);

const answerVersion = (socket: Socket): void => {
  socket.write(
    Buffer.concat([
      message('T', int16(2), column('version_number'), column('version')),
      message('D', int16(2), cell('130004'), cell('13.4')),
      message('C', text('SELECT 1')),
      ready,
    ]),
  );
};

/** Just enough of PostgreSQL's protocol to be a server of version 13, which nobody can install here. */
export const startOldPostgres = async (): Promise<{ url: string; close: () => Promise<void> }> => {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    let greeted = false;
    socket.on('data', (data) => {
      if (data.length === 8 && data.readInt32BE(4) === 80_877_103) return void socket.write('N');
      if (!greeted) {
        greeted = true;
        return void socket.write(Buffer.concat([message('R', int32(0)), ready]));
      }
      if (data[0] === 'Q'.charCodeAt(0)) answerVersion(socket);
      if (data[0] === 'X'.charCodeAt(0)) socket.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return {
    url: `postgres://millrace@127.0.0.1:${port}/millrace`,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
};
