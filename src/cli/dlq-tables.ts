import type {
  DropAnswer,
  LetterAnswer,
  RefusalAnswer,
  ReplayAnswer,
  ShownAnswer,
  StatsAnswer,
} from '../dlq-admin/answers.ts';
import type { SkipReport } from '../dlq-admin/skip-version.ts';
import { parkedName } from '../streams/parked-name.ts';
import { ago } from './ago.ts';
import { hexDump } from './hex-dump.ts';
import { table } from './table.ts';

/** Longer causes are cut in lists; `show` and `--json` have all of it. */
const causeLengthMax = 80;
/** Letters that a replay or a drop names one by one; `--json` has all of them. */
const namedMax = 50;

const shortened = (text: string): string => {
  const line = text.replace(/\s+/g, ' ');
  return line.length > causeLengthMax ? `${line.slice(0, causeLengthMax - 1)}…` : line;
};

const placeOf = (original: LetterAnswer['original']): string =>
  original ? `${original.topic}/${original.partition}@${original.offset}` : '-';

const causeOf = ({ exception, message }: { exception: string; message: string }): string =>
  shortened(message === '' ? exception : `${exception}: ${message}`);

const time = (text: string, now: Date): string => `${text} (${ago(new Date(text), now)})`;

export const describeLetters = (
  { letters, more }: { letters: readonly LetterAnswer[]; more: boolean },
  { all, now }: { all: boolean; now: Date },
): string => {
  if (letters.length === 0) return all ? 'No dead letters.' : 'No open dead letters.';
  return [
    table([
      ['ID', 'FAILED', 'STATE', 'PROJECTION', 'KIND', 'KEY', 'CAME FROM', 'CAUSE'],
      ...letters.map((letter) => [
        letter.id,
        ago(new Date(letter.failedAt), now),
        letter.state,
        letter.projection ?? '-',
        letter.kind ?? '-',
        shortened(letter.key ?? '-'),
        placeOf(letter.original),
        causeOf(letter),
      ]),
    ]),
    ...(more ? [`The first ${letters.length}; there are more: --limit shows them.`] : []),
  ].join('\n');
};

export const describeStats = ({ letters, causes }: StatsAnswer, now: Date): string =>
  letters === 0
    ? 'No open dead letters.'
    : [
        table([
          ['LETTERS', 'OLDEST', 'NEWEST', 'TOPIC', 'PROJECTION', 'EXAMPLE', 'CAUSE'],
          ...causes.map((cause) => [
            String(cause.letters),
            ago(new Date(cause.oldestAt), now),
            ago(new Date(cause.newestAt), now),
            cause.topic,
            cause.projection ?? '-',
            cause.example,
            causeOf(cause),
          ]),
        ]),
        `${letters} in all.`,
      ].join('\n');

export const describeShownLetter = (shown: ShownAnswer, now: Date): string => {
  const facts: (readonly [string, string | null])[] = [
    ['state', shown.state],
    ['failed', time(shown.failedAt, now)],
    ['kind', shown.kind],
    ['projection', shown.projection && `${shown.projection} version ${shown.projectionVersion ?? 'unknown'}`],
    ['came from', placeOf(shown.original)],
    ['key', shown.key],
    ['parked', shown.isParked ? 'its key is, so it is replayed with all others of the key' : null],
    ['replayed', shown.replays === 0 ? null : `${shown.replays} times before it came here`],
    ...shown.history.map(
      ({ decision, attempt, who, decidedAt, doneAt }) =>
        [
          decision,
          `by ${who}, ${time(decidedAt, now)}, replay ${attempt}${doneAt ? '' : '; not known whether it came through'}`,
        ] as const,
    ),
  ];
  const headers = shown.headers.map(({ name, value, isText }) => [
    `  ${name}`,
    value === null ? '(no value)' : isText ? value : `0x${value}`,
  ]);
  return [
    `DEAD LETTER ${shown.id}`,
    table(facts.flatMap(([name, value]) => (value === null ? [] : [[`  ${name}`, value]]))),
    'CAUSE',
    indented(`${shown.exception}: ${shown.message}`),
    ...(shown.stack === '' ? [] : ['STACK', indented(shown.stack)]),
    ...(headers.length === 0 ? [] : ['HEADERS', table(headers)]),
    'RECORD',
    indented(describeValue(shown)),
  ].join('\n');
};

const describeValue = ({ value, valueBytes }: ShownAnswer): string => {
  if (value === null) return 'It has no value: a tombstone.';
  if ('envelope' in value) return JSON.stringify(value.envelope, null, 2);
  return [
    `Its ${valueBytes} bytes cannot be read: ${value.unreadable}`,
    hexDump(Buffer.from(value.hex, 'hex')),
    ...(value.isCut ? ['…'] : []),
  ].join('\n');
};

const indented = (text: string): string => text.replace(/^/gm, '  ');

const lettersText = (count: number): string => (count === 1 ? '1 letter' : `${count} letters`);

const verbs: Readonly<Record<Exclude<ReplayAnswer['outcome'] | DropAnswer['outcome'], 'refused'>, string>> = {
  replayed: 'Replayed',
  'would-replay': 'Would replay',
  dropped: 'Dropped',
  'would-drop': 'Would drop',
};

/** What a replay or a drop did, or would do, letter by letter, and what it left alone and why. */
export const describeChange = (answer: ReplayAnswer | DropAnswer, { byIds }: { byIds: boolean }): string => {
  const { outcome, letters, refused, more } = answer;
  const named = letters.slice(0, namedMax);
  const listed =
    named.length === 0
      ? []
      : [
          table([
            ['ID', 'PROJECTION', 'KEY', 'CAME FROM', 'REPLAY'],
            ...named.map((letter) => [
              letter.id,
              letter.projection ?? '-',
              shortened(letter.key ?? '-'),
              placeOf(letter.original),
              String(letter.replays + 1),
            ]),
          ]),
        ];
  const left = letters.length - named.length;
  return [
    ...(outcome === 'refused' ? [] : listed),
    ...(left > 0 && outcome !== 'refused' ? [`… and ${lettersText(left)} more; --json names them.`] : []),
    ...refused.map(describeRefusal),
    outcome === 'refused'
      ? 'Nothing was done.'
      : `${verbs[outcome]} ${lettersText(letters.length)}${after(answer)}.`,
    ...(outcome.startsWith('would-') && letters.length > 0
      ? [byIds ? 'Leave --dry-run out to do it.' : 'Say --yes to do it.']
      : []),
    ...(more ? ['There are more; run it again for the next ones.'] : []),
    ...('stillParked' in answer && answer.stillParked > 0 ? [stillParkedText] : []),
    ...('waitingKeys' in answer ? answer.waitingKeys.map(describeWaiting) : []),
  ].join('\n');
};

const stillParkedText =
  'The key is parked still: a record of it has failed again, no projector runs, or its records come too fast. See millrace dlq list, then run it again.';

const describeWaiting = ({ projection, key, missingVersion, records }: DropAnswer['waitingKeys'][number]) =>
  `${projection} holds ${records} later ${records === 1 ? 'record' : 'records'} of ${key} until version ${missingVersion} comes. If that was one of these letters: ${skipCommand({ projection, key, version: missingVersion })}`;

export const skipCommand = ({
  projection,
  key,
  version,
}: {
  readonly projection: string;
  readonly key: string;
  readonly version: number;
}): string => `millrace dlq skip-version ${quoted(projection)} ${quoted(key)} ${version}`;

/** What became of a version that was said never to come. */
export const describeSkip = (
  report: SkipReport,
  { projection, key }: { readonly projection: string; readonly key: string },
): string => {
  if (report.outcome === 'refused') return describeSkipRefusal(report, { projection, key });
  const { outcome, version, step, next, releasedRecords } = report;
  return [
    `${outcome === 'skipped' ? 'Skipped' : 'Would skip'} version ${version} of ${key} in ${projection} (${step}).`,
    releasedRecords === 0
      ? `Nothing goes on with it yet; the key waits for version ${next}.`
      : `${releasedRecords} held ${releasedRecords === 1 ? 'record goes' : 'records go'} on as soon as the projection runs; after that the key waits for version ${next}.`,
    ...(outcome === 'would-skip' ? ['Leave --dry-run out to do it.'] : []),
  ].join('\n');
};

const describeSkipRefusal = (
  { reason, version, next, steps }: SkipReport & { readonly outcome: 'refused' },
  { projection, key }: { readonly projection: string; readonly key: string },
): string => {
  switch (reason) {
    case 'no-such-step':
      return steps.length === 0
        ? `Nothing was done: no projection ${projection} waits for versions. millrace topologies names what there is.`
        : `Nothing was done: ${projection} has no such step; those that wait for versions are ${steps.join(', ')}.`;
    case 'unknown-key':
      return `Nothing was done: ${projection} knows nothing of ${key}, or not yet. When later versions are held, millrace status shows the key.`;
    case 'several-steps':
      return `Nothing was done: several steps of ${projection} know ${key}. Say which one with --step: ${steps.join(', ')}.`;
    case 'held':
      return `Nothing was done: version ${version} of ${key} is here and is held until version ${next} comes.`;
    case 'passed':
      return `Nothing was done: version ${version} of ${key} was handed on or skipped before; the key waits for version ${next}.`;
  }
};

const after = (answer: ReplayAnswer | DropAnswer): string => {
  const { releasedKeys } = answer;
  return [
    'replayId' in answer && answer.replayId ? ` as ${answer.replayId}` : '',
    'rounds' in answer && answer.rounds > 1 ? ` in ${answer.rounds} rounds` : '',
    releasedKeys === 0 ? '' : `; keys that are not parked any more: ${releasedKeys}`,
  ].join('');
};

export const quoted = (text: string): string =>
  /^[A-Za-z0-9._/:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

const describeRefusal = (refusal: RefusalAnswer): string => {
  const { letters, examples, reason, key, topic, projection } = refusal;
  const which = `${examples.join(', ')}${letters > examples.length ? ', …' : ''}`;
  const said = `${lettersText(letters)} left alone (${which})`;
  switch (reason) {
    case 'missing':
      return `${said}: there is no such letter, or not any more.`;
    case 'foreign':
      return `${said}: it is not told whose it is and where it came from, so it can only be dropped.`;
    case 'value-gone':
      return `${said}: the value was too large for the letter and is not in its topic any more, so it can only be dropped.`;
    case 'decided':
      return `${said}: it was replayed or dropped before; replay --force does it again.`;
    case 'replaying':
      return `${said}: a replay of it was cut off and may be on its way; replay it again first, which is harmless.`;
    case 'too-often':
      return `${said}: replayed as often as DLQ_REPLAYS_MAX allows; --force does it once more.`;
    case 'parked':
      return `${said}: the key is parked, and its records are only replayed all together, in their order: ${keyCommand({ key, topic, projection })}`;
  }
};

const keyCommand = ({
  key,
  topic,
  projection,
}: Pick<RefusalAnswer, 'key' | 'topic' | 'projection'>): string =>
  [
    'millrace dlq replay --key',
    quoted(parkedName(key ?? '')),
    ...(topic ? ['--topic', quoted(topic)] : []),
    ...(projection ? ['--projection', quoted(projection)] : []),
    '--yes',
  ].join(' ');
