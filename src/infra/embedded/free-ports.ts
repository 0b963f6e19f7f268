import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** Below the range from which systems hand out ports for outgoing connections, so those cannot take one away. */
const firstPort = 21_000;
const lastPort = 31_999;
const triesMax = 200;

/** The remembered port where it is still free, else another one. */
export const chooseFreePorts = async (
  names: readonly string[],
  remembered: Readonly<Record<string, number>>,
): Promise<Record<string, number>> => {
  const chosen: Record<string, number> = {};
  for (const name of names) {
    const taken = Object.values(chosen);
    const earlier = remembered[name];
    const isUsable = earlier !== undefined && !taken.includes(earlier) && (await isFree(earlier));
    chosen[name] = isUsable ? earlier : await anyFreePort(taken);
  }
  return chosen;
};

const anyFreePort = async (taken: readonly number[]): Promise<number> => {
  for (let tries = 0; tries < triesMax; tries++) {
    const port = randomInt(firstPort, lastPort + 1);
    if (!taken.includes(port) && (await isFree(port))) return port;
  }
  throw new Error(`no free port between ${firstPort} and ${lastPort} in ${triesMax} tries`);
};

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1' }, () => server.close(() => resolve(true)));
  });
