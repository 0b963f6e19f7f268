import { pino } from 'pino';
import { loadConfig } from '../../src/config/load-config.ts';
import { provideInfrastructure } from '../../src/infra/provide-infrastructure.ts';
import { OperatorError } from '../../src/operator-error.ts';

/**
 * A process that owns an embedded stack, for tests that kill it: says on standard output when it is ready and
 * how it ended, and stops on SIGINT as the command line does.
 */
const say = (message: unknown): void => void process.stdout.write(`${JSON.stringify(message)}\n`);
const log = pino({ level: 'warn' }, { write: (line: string) => say({ logged: JSON.parse(line).msg }) });
const interrupted = new AbortController();
process.on('SIGINT', () => interrupted.abort());
// The test run holds the other end: a run that is killed must not leave this process behind.
process.stdin.on('end', () => process.exit(71)).resume();

try {
  const { config } = loadConfig({ env: process.env, envFile: '/dev/null' });
  say({ state: 'starting' });
  const infrastructure = await provideInfrastructure(config, {
    log,
    signal: interrupted.signal,
    report: ({ subject, state }) => say({ subject, state }),
  });
  say({ state: 'ready', endpoints: infrastructure.endpoints, owned: infrastructure.servers.size });
  const asked = new Promise<undefined>((resolve) =>
    interrupted.signal.addEventListener('abort', () => resolve(undefined)),
  );
  const failure = await Promise.race([asked, infrastructure.failed]);
  await infrastructure.stop();
  if (failure) throw failure;
  say({ state: 'stopped' });
} catch (error) {
  say({
    state: 'failed',
    line: error instanceof OperatorError ? error.line : String((error as Error).stack),
  });
  process.exitCode = error instanceof OperatorError ? error.exitCode : 70;
} finally {
  process.stdin.destroy();
}
