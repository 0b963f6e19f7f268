import { join } from 'node:path';
import { tcpExchange } from '../../tcp-exchange.ts';
import type { DataDir } from '../data-dir.ts';
import type { ServerSpec } from '../managed-server.ts';

const stopTimeoutMs = 5000;
const probeTimeoutMs = 1000;

export const redisUrl = (port: number): string => `redis://127.0.0.1:${port}`;

/** A cache and nothing else: bounded, never written to disk. */
export const redisServer = (options: { dir: DataDir; command: string; port: number }): ServerSpec => ({
  name: 'redis',
  title: 'Redis',
  command: options.command,
  args: [
    ...['--port', String(options.port), '--bind', '127.0.0.1', '--protected-mode', 'yes'],
    ...['--save', '', '--appendonly', 'no', '--dir', options.dir.redis],
    ...['--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru'],
  ],
  cwd: options.dir.redis,
  stopSignal: 'SIGTERM',
  stopTimeoutMs,
  logFile: join(options.dir.logs, 'redis.log'),
  isHealthy: () => answersPing(options.port),
});

const answersPing = async (port: number): Promise<boolean> => {
  try {
    const answer = await tcpExchange(
      { host: '127.0.0.1', port },
      { timeoutMs: probeTimeoutMs, send: 'PING\r\n' },
    );
    return answer.toString('latin1').startsWith('+PONG');
  } catch {
    return false;
  }
};
