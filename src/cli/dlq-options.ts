import { type Command, InvalidArgumentError, Option } from 'commander';
import { letterKinds } from '../dlq-admin/dead-letter.ts';
import { isEmptyFilter, type LetterFilter, lettersMax } from '../dlq-admin/letter-filter.ts';
import { type LetterPlace, type LetterTopics, parseLetterId, topicNameOf } from '../dlq-admin/letter-id.ts';
import type { LetterSelection } from '../dlq-admin/select-letters.ts';
import { OperatorError } from '../operator-error.ts';

export interface FilterOptions {
  readonly topic?: string;
  readonly projection?: string;
  readonly kind?: LetterFilter['kind'];
  readonly exception?: string;
  readonly key?: string;
  readonly since?: Date;
  readonly until?: Date;
}

const unitsMs: Readonly<Record<string, number>> = { s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time, or how long ago it was. */
export const timeArgument = (text: string): Date => {
  const { count, unit = '' } = /^(?<count>\d{1,6}) ?(?<unit>s|min|h|d)$/.exec(text)?.groups ?? {};
  if (count !== undefined) return new Date(Date.now() - Number(count) * (unitsMs[unit] ?? 0));
  const time = new Date(text);
  if (!/^\d{4}-\d\d-\d\d/.test(text) || Number.isNaN(time.getTime()))
    throw new InvalidArgumentError(
      'A time is such as 2026-05-01T10:00Z, or how long ago: 90s, 15min, 2h, 3d.',
    );
  return time;
};

export const limitArgument = (text: string): number => {
  const limit = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > lettersMax) throw new InvalidArgumentError(`Allowed is 1 to ${lettersMax}.`);
  return limit;
};

export const versionArgument = (text: string): number => {
  const version = /^\d{1,15}$/.test(text) ? Number(text) : 0;
  if (version < 1) throw new InvalidArgumentError('A version is a whole number from 1 on.');
  return version;
};

export const withFilterOptions = (command: Command): Command =>
  command
    .option('--topic <topic>', 'only of this topic, such as like-events')
    .option('--projection <name>', 'only of this projection')
    .addOption(new Option('--kind <kind>', 'only of this kind').choices(letterKinds))
    .option('--exception <text>', 'only with this in the name or the message of the error')
    .option('--key <key>', 'only of this key')
    .option('--since <time>', 'only from then on: a time, or how long ago (90s, 15min, 2h, 3d)', timeArgument)
    .option('--until <time>', 'only from before then', timeArgument);

const usage = 2;

const wrong = (message: string, remedy: string): OperatorError =>
  new OperatorError(message, { remedy, exitCode: usage });

export const filterOf = (topics: LetterTopics, options: FilterOptions): LetterFilter => {
  const { topic, projection, kind, exception, key, since, until } = options;
  return {
    topic: topic === undefined ? undefined : knownTopic(topics, topic),
    projection,
    kind,
    exception,
    key,
    since,
    until,
  };
};

const knownTopic = (topics: LetterTopics, text: string): string => {
  const name = topicNameOf(topics, text);
  if (name === undefined) throw wrong(`There is no topic ${text}`, `There are ${topics.names.join(', ')}`);
  return name;
};

export const letterOf = (topics: LetterTopics, text: string): LetterPlace => {
  const place = parseLetterId(topics, text);
  if (!place)
    throw wrong(
      `${text} names no dead letter`,
      `Name it as millrace dlq list does, such as like-events@17; the topics are ${topics.names.join(', ')}`,
    );
  return place;
};

/** What is to be replayed or dropped: by ids, a whole key, or by a filter. */
export const selectionOf = (
  topics: LetterTopics,
  ids: readonly string[],
  options: FilterOptions & { readonly limit?: number },
): LetterSelection => {
  const filter = filterOf(topics, options);
  const hasFilter = !isEmptyFilter(filter) || options.limit !== undefined;
  if (ids.length > 0 && hasFilter)
    throw wrong('Letters are named, and a filter is given too', 'Give either ids or a filter');
  if (ids.length > lettersMax)
    throw wrong(`More than ${lettersMax} letters are named`, 'Name fewer, or use a filter');
  if (ids.length > 0) return { by: 'ids', places: ids.map((id) => letterOf(topics, id)) };
  if (isEmptyFilter(filter))
    throw wrong('It is not said which letters are meant', 'Name them by id, or with --key or another filter');
  const { key, topic, projection, ...narrower } = filter;
  const isWhole = isEmptyFilter(narrower) && options.limit === undefined;
  if (key !== undefined && isWhole) return { by: 'key', key, topic, projection };
  return { by: 'filter', filter, limit: options.limit ?? lettersMax };
};
