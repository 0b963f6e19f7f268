import type { Difference } from '../rebuild/compare-models.ts';
import type { NotCompared, RebuildReport } from '../rebuild/rebuild-projection.ts';
import type { RollbackReport } from '../rebuild/roll-back.ts';
import { durationText } from './rebuild-progress.ts';
import { table } from './table.ts';

const count = (value: number, one: string, many = `${one}s`): string =>
  `${value.toLocaleString('en-US')} ${value === 1 ? one : many}`;

export const describeRebuild = (report: RebuildReport): string => {
  const { projection, comparison, setAside, heldBack, events, seconds } = report;
  return [
    `${projection}: ${outcomeText(report)}`,
    `  ${count(events, 'event')} from ${report.from === 'journal' ? 'the journal and the topics' : 'the topics'} in ${durationText(seconds)}${report.isResumed ? ', begun by an earlier process' : ''}`,
    comparison
      ? `  ${count(comparison.rows, 'row')} compared, ${count(comparison.differences, 'difference')}`
      : `  not compared: ${notComparedText[report.notCompared ?? 'another-version']}`,
    ...(setAside.count > 0
      ? [
          `  ${count(setAside.count, 'record')} could not be applied:`,
          ...setAside.shown.map((line) => `    ${line}`),
        ]
      : []),
    ...(heldBack > 0
      ? [
          `  ${count(heldBack, 'event')} did not get to Kafka, so that only the rebuilt model has ${heldBack === 1 ? 'it' : 'them'}: see millrace outbox failed`,
        ]
      : []),
    ...(comparison && comparison.differences > 0
      ? ['', differenceTable(comparison.shown, comparison.differences)]
      : []),
  ].join('\n');
};

const notComparedText: Readonly<Record<NotCompared, string>> = {
  'another-version': 'the live model is that of another version of the projection',
  'never-filled': 'the live model was empty',
  'records-lost': 'the live model stood still, and lacks records that the topics have lost',
};

const outcomeText = ({ outcome, build, replaces, notCompared }: RebuildReport): string => {
  switch (outcome) {
    case 'swapped':
      if (notCompared === 'never-filled') return `build ${build} is live, the first that is filled`;
      if (notCompared === 'records-lost')
        return `build ${build} is live, and the projection goes on with it; build ${replaces} is kept for looking at`;
      return `build ${build} is live; build ${replaces} is kept for millrace rebuild --rollback`;
    case 'stopped':
      return `not swapped, the live model is as it was; look at the differences, then mend them or use --accept-differences`;
    case 'tried':
      return 'tried, and nothing was changed';
  }
};

/** Only the columns that differ: rows may be long. */
const differenceTable = (shown: readonly Difference[], total: number): string => {
  const rows = shown.map(({ table: name, key, live, rebuilt }) => {
    const columns = Object.keys(live ?? rebuilt ?? {}).filter(
      (column) => JSON.stringify(live?.[column]) !== JSON.stringify(rebuilt?.[column]),
    );
    const text = (values: Difference['live']): string =>
      values === null
        ? '(none)'
        : columns.map((column) => `${column}=${JSON.stringify(values[column])}`).join(' ');
    return [name, key, text(live), text(rebuilt)];
  });
  const left = total - shown.length;
  return [
    table([['TABLE', 'KEY', 'LIVE', 'REBUILT'], ...rows]),
    ...(left > 0 ? [`and ${left.toLocaleString('en-US')} more`] : []),
  ].join('\n');
};

export const describeRollback = ({ projection, build, replaces, events }: RollbackReport): string =>
  `${projection}: build ${build} is live again, after ${count(events, 'record')} that it had missed; build ${replaces} is kept`;
