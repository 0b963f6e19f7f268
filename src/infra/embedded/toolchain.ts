import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { OperatorError } from '../../operator-error.ts';
import { findOnPath, isExecutable } from './find-executable.ts';

const oldestJava = 17;
const versionTimeoutMs = 20_000;

export interface Toolchain {
  readonly java: string;
  readonly maven: string | undefined;
}

/** Everything that is missing in one message: nobody wants to install Java only to hear about Maven next. */
export const requireToolchain = async (options: {
  env: NodeJS.ProcessEnv;
  needsMaven: boolean;
}): Promise<Toolchain> => {
  const java = await findJava(options.env);
  const maven = findOnPath('mvn', options.env);
  const missing = [
    ...('path' in java ? [] : [`Java ${oldestJava} or newer (${java.reason})`]),
    ...(options.needsMaven && !maven ? ['Maven (there is no mvn on the PATH)'] : []),
  ];
  if (missing.length === 0 && 'path' in java) return { java: java.path, maven };
  const packages = { java: !('path' in java), maven: options.needsMaven && !maven };
  throw new OperatorError(`The embedded Kafka and schema registry need ${missing.join(' and ')}`, {
    remedy: `${installation(packages)}, or do without: MILLRACE_INFRA=docker, or your own servers in DATABASE_URL, KAFKA_BROKERS, SCHEMA_REGISTRY_URL and REDIS_URL`,
  });
};

const installation = (packages: { java: boolean; maven: boolean }): string => {
  const debian = [packages.java ? 'openjdk-17-jre-headless' : '', packages.maven ? 'maven' : ''];
  const homebrew = [packages.java ? 'openjdk@17' : '', packages.maven ? 'maven' : ''];
  const list = (names: string[]) => names.filter((name) => name !== '').join(' ');
  return `Install it (Debian: apt-get install ${list(debian)}; macOS: brew install ${list(homebrew)})`;
};

const findJava = async (env: NodeJS.ProcessEnv): Promise<{ path: string } | { reason: string }> => {
  const fromHome = env.JAVA_HOME ? join(env.JAVA_HOME, 'bin', 'java') : undefined;
  const fromPath = findOnPath('java', env);
  const candidates = [fromHome, fromPath].filter((path) => path !== undefined).filter(isExecutable);
  let newest = 0;
  for (const path of candidates) {
    const version = await javaMajorVersion(path);
    if (version >= oldestJava) return { path };
    newest = Math.max(newest, version);
  }
  if (newest > 0) return { reason: `found only Java ${newest}` };
  return { reason: 'found none in JAVA_HOME or on the PATH' };
};

/** 0 when it is no Java at all, such as the placeholder that macOS puts into the PATH. */
const javaMajorVersion = async (path: string): Promise<number> => {
  try {
    const { stdout, stderr } = await promisify(execFile)(path, ['-version'], { timeout: versionTimeoutMs });
    const [, first, second] = /version "(\d+)(?:\.(\d+))?/.exec(stderr + stdout) ?? [];
    // Java 8 called itself 1.8.
    return Number(first === '1' ? second : first) || 0;
  } catch {
    return 0;
  }
};
