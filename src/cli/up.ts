import { Command, Option } from 'commander';
import type { Logger } from 'pino';
import { type App, accessFor, hasApi, startApp } from '../app/start-app.ts';
import type { Access } from '../auth/access.ts';
import type { Config } from '../config/settings.ts';
import { requireFreePort } from '../http/listen.ts';
import type { Infrastructure } from '../infra/infrastructure.ts';
import { provideInfrastructure } from '../infra/provide-infrastructure.ts';
import { createLogger } from '../logging/create-logger.ts';
import { OperatorError } from '../operator-error.ts';
import { runSteps } from './progress.ts';
import { readConfig } from './session.ts';
import { type StopReason, stopReason } from './stop-reason.ts';

export const upCommand = (): Command =>
  new Command('up')
    .description('Start Millrace, with embedded servers unless the environment names others')
    .addOption(
      new Option('--role <role>', 'what this process does (MILLRACE_ROLE)').choices([
        'all',
        'api',
        'relay',
        'projector',
      ]),
    )
    .option('--port <port>', 'port of the HTTP server, 0 for any free one (PORT)')
    .action(async (flags: { role?: string; port?: string }) => {
      const { config, report } = readConfig({ MILLRACE_ROLE: flags.role, PORT: flags.port });
      const portWasChosen = report.some(
        ({ variable, origin }) => variable === 'PORT' && origin !== 'default',
      );
      await up(withPortForRole(config, portWasChosen));
    });

/** Processes without the API answer only for their health; several of them fit on one machine with the default settings. */
const withPortForRole = (config: Config, portWasChosen: boolean): Config =>
  portWasChosen || hasApi(config.process.role) ? config : { ...config, http: { ...config.http, port: 0 } };

const up = async (config: Config): Promise<void> => {
  const log = createLogger({ level: config.process.logLevel, format: config.process.logFormat });
  await requireFreePort(config.http);
  const access = await accessFor(config, config.process.role);
  const asked = stopReason();
  const running: { infrastructure?: Infrastructure; app?: App } = {};

  const started = start({ config, access, log, running, signal: asked.signal });
  try {
    const first = await Promise.race([started, asked.reason]);
    if (first === undefined) {
      tellOperatorKey(access);
      console.log(`Millrace is ready: ${running.app?.url}`);
      await runUntilStopped(running, asked.reason, log);
    } else {
      log.info(`Stopping before the start was complete: ${first.why}`);
      await started.catch(() => {});
    }
  } finally {
    await stopAll(config, running, log);
    asked.dispose();
  }
};

/** Standard output is for the ready line; the key is told once, when it is made. */
const tellOperatorKey = (access: Access | undefined): void => {
  if (!access?.operatorKey?.created) return;
  const { key, file } = access.operatorKey;
  console.error(`Operator key, made now and kept in ${file}:\n\n  Authorization: Bearer ${key}\n`);
};

const start = async (options: {
  config: Config;
  access: Access | undefined;
  log: Logger;
  running: { infrastructure?: Infrastructure; app?: App };
  signal: AbortSignal;
}): Promise<void> => {
  const { config, access, log, running, signal } = options;
  await runSteps([
    {
      title: 'Servers',
      run: async (report) => {
        running.infrastructure = await provideInfrastructure(config, { log, report, signal });
      },
    },
    {
      title: `Pipeline (${config.process.role})`,
      run: async () => {
        signal.throwIfAborted();
        if (!running.infrastructure) return;
        const { endpoints } = running.infrastructure;
        running.app = await startApp({ config, endpoints, role: config.process.role, access, log });
      },
    },
  ]);
};

const runUntilStopped = async (
  { infrastructure, app }: { infrastructure?: Infrastructure; app?: App },
  asked: Promise<StopReason>,
  log: Logger,
): Promise<void> => {
  const failures = [infrastructure?.failed, app?.failed].filter((failure) => failure !== undefined);
  const end = await Promise.race([asked, ...failures]);
  if (end instanceof Error) {
    if (end instanceof OperatorError) throw end;
    throw new OperatorError(end.message, {
      remedy: 'Look at the log lines before this one, then start again',
      cause: end,
    });
  }
  log.info(`Stopping: ${end.why}`);
};

const stopAll = async (
  config: Config,
  { infrastructure, app }: { infrastructure?: Infrastructure; app?: App },
  log: Logger,
): Promise<void> => {
  const overdue = setTimeout(() => {
    log.error(
      { timeoutMs: config.process.shutdownTimeoutMs },
      'The clean stop took too long; ending without it',
    );
    process.exit(1);
  }, config.process.shutdownTimeoutMs);
  try {
    await app?.stop();
  } finally {
    await infrastructure?.stop();
    clearTimeout(overdue);
  }
};
