import { OperatorError } from '../../operator-error.ts';
import type { ReportProgress } from '../infrastructure.ts';
import { MavenProgress } from './maven-progress.ts';
import { runTool, ToolError } from './run-tool.ts';
import type { Supervisor } from './supervisor.ts';

/**
 * Newer versions of the plugin read the whole chain of parent descriptors before they copy a file, and the
 * registry's parent is not in every mirror; this one copies the file. It is also the default of Maven 3.8.
 */
export const mavenDependencyPlugin = 'org.apache.maven.plugins:maven-dependency-plugin:2.8';

/** A slow line needs minutes for 170 MB; a dead one must not keep a start waiting for ever. */
export const downloadTimeoutMs = 15 * 60_000;

export interface Download {
  readonly subject: string;
  readonly title: string;
  readonly expectedBytes: number;
  readonly args: readonly string[];
  readonly cwd: string;
}

export interface Maven {
  readonly command: string;
  readonly supervisor: Supervisor;
  /** All of it: this is where proxies and Maven's own options are. */
  readonly env: NodeJS.ProcessEnv;
  readonly report: ReportProgress;
  readonly signal?: AbortSignal | undefined;
}

export const downloadWithMaven = async (maven: Maven, download: Download): Promise<void> => {
  const progress = new MavenProgress();
  const show = (bytes: number) =>
    maven.report({
      subject: download.subject,
      state: 'running',
      text: `downloading ${download.title}: ${Math.round(bytes / 1_000_000)} MB`,
      fraction: Math.min(0.99, bytes / download.expectedBytes),
    });
  show(0);
  try {
    await runTool(maven.supervisor, {
      name: 'maven',
      command: maven.command,
      // Without -U a failure is remembered for a day, also when the network is back after a minute.
      args: ['-U', '-C', ...download.args],
      cwd: download.cwd,
      env: maven.env,
      timeoutMs: downloadTimeoutMs,
      signal: maven.signal,
      onOutput: (chunk) => show(progress.add(chunk)),
    });
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    throw new OperatorError(`Maven could not download ${download.title}: ${withoutUrls(error.complaint)}`, {
      remedy:
        'Check the network and the settings of Maven, and start again; what is downloaded already is kept',
      cause: error,
    });
  }
};

const withoutUrls = (line: string): string =>
  line
    .replace(/\p{Cc}\[[\d;]*m/gu, '')
    .replace(/\s*\(?\bhttps?:\/\/[^\s)]+\)?/g, '')
    .slice(0, 400);
