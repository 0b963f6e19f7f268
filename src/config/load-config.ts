import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { OperatorError } from '../operator-error.ts';
import { type RelayProfile, relayProfileNames, relayProfiles } from './relay-profiles.ts';
import type { Setting } from './setting.ts';
import { type Config, settings } from './settings.ts';

export type SettingOrigin = 'default' | 'env' | 'file' | 'profile';

export interface SettingReport {
  readonly variable: string;
  readonly value: unknown;
  readonly shown: string;
  readonly origin: SettingOrigin;
  readonly describes: string;
}

export interface LoadedConfig {
  readonly config: Config;
  readonly report: readonly SettingReport[];
}

type Variables = Readonly<Record<string, string | undefined>>;

/** Names that begin like this are ours: one that is not in the table is a mistake somebody should hear about. */
const ownPrefixes = ['MILLRACE_', 'RELAY_', 'STREAMS_', 'TOPIC_', 'DLQ_'];

/** Reads every setting once: environment first, then the file, the profile, the default. Reports all mistakes together. */
export const loadConfig = (sources: { env: Variables; envFile?: string }): LoadedConfig => {
  const file = readEnvFile(sources.envFile ?? '.env');
  const mistakes = unknownNames(sources.env, file);
  const profile = profileOf(sources.env, file);
  const report: SettingReport[] = [];
  const config: Record<string, Record<string, unknown>> = {};

  for (const [group, entries] of Object.entries(settings)) {
    const values: Record<string, unknown> = {};
    for (const [name, setting] of Object.entries<Setting<unknown>>(entries)) {
      const { text, origin } = lookUp(setting.variable, sources.env, file, profile);
      const value = text === undefined ? setting.fallback : setting.parse(text);
      if (text !== undefined && value === undefined) {
        mistakes.push(`${setting.variable} is ${shown(setting, text)}, allowed is ${setting.allowed}`);
      }
      values[name] = value;
      report.push({
        variable: setting.variable,
        value,
        shown: shown(setting, value),
        origin,
        describes: setting.describes,
      });
    }
    config[group] = Object.freeze(values);
  }
  if (mistakes.length > 0) {
    throw new OperatorError(mistakes.join('; '), {
      remedy: 'See all settings with: npx millrace config',
      exitCode: 2,
    });
  }
  return { config: Object.freeze(config) as unknown as Config, report };
};

const readEnvFile = (path: string): Variables => {
  try {
    return parseEnv(readFileSync(path, 'utf8'));
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new OperatorError(`The settings file ${path} cannot be read: ${(cause as Error).message}`, {
      remedy: 'Make it readable or remove it',
      exitCode: 2,
      cause,
    });
  }
};

/** An empty variable counts as not given: that is how shells and compose files leave one out. */
const lookUp = (
  variable: string,
  env: Variables,
  file: Variables,
  profile: Variables,
): { text: string | undefined; origin: SettingOrigin } => {
  if (env[variable]) return { text: env[variable], origin: 'env' };
  if (file[variable]) return { text: file[variable], origin: 'file' };
  if (profile[variable]) return { text: profile[variable], origin: 'profile' };
  return { text: undefined, origin: 'default' };
};

/** A name that is no profile is reported like any other wrong value, and presets nothing. */
const profileOf = (env: Variables, file: Variables): Variables => {
  const name = env.RELAY_PROFILE || file.RELAY_PROFILE;
  return relayProfileNames.find((known) => known === name) ? relayProfiles[name as RelayProfile] : {};
};

const unknownNames = (env: Variables, file: Variables): string[] => {
  const known = Object.values(settings).flatMap((group) =>
    Object.values<Setting<unknown>>(group).map((setting) => setting.variable),
  );
  const isUnknown = (name: string) => !known.includes(name);
  const fromEnv = Object.keys(env).filter(
    (name) => ownPrefixes.some((prefix) => name.startsWith(prefix)) && isUnknown(name),
  );
  const fromFile = Object.keys(file).filter(isUnknown);
  return [...new Set([...fromEnv, ...fromFile])].map((name) => {
    const near = nearest(name, known);
    return `${name} is not a setting${near ? ` (did you mean ${near}?)` : ''}`;
  });
};

const nearest = (name: string, known: readonly string[]): string | undefined => {
  const [best] = known
    .map((candidate) => ({ candidate, distance: editDistance(name, candidate) }))
    .sort((a, b) => a.distance - b.distance);
  return best && best.distance <= Math.max(2, name.length / 4) ? best.candidate : undefined;
};

const editDistance = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substitution, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
};

const shown = (setting: Setting<unknown>, value: unknown): string => {
  if (value === undefined) return 'not set';
  const text = Array.isArray(value) ? value.join(',') : String(value);
  if (setting.secret === 'whole') return '********';
  if (setting.secret === 'url-password') return maskPassword(text);
  return JSON.stringify(value) === `"${text}"` || typeof value !== 'string' ? text : JSON.stringify(value);
};

/** Up to the last @, because a password may contain one; rather too much is hidden than too little. */
export const maskPassword = (url: string): string =>
  url.replace(/^([^/]*\/\/[^:@/]*):.*@/, '$1:********@').replace(/([?&]password=)[^&]*/gi, '$1********');
