import { Command } from 'commander';
import { type PipelineStatus, readPipelineStatus } from '../app/pipeline-status.ts';
import { ago } from './ago.ts';
import { quoted, skipCommand } from './dlq-tables.ts';
import { modelLines } from './model-lines.ts';
import { relayPicture } from './relay-picture.ts';
import { withServers } from './session.ts';
import { table } from './table.ts';

export const statusCommand = (): Command =>
  new Command('status')
    .description('The pipeline at a glance: outbox, relay, topics with lag, read models')
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) =>
      withServers('diagnosing', async ({ adapters, config, infrastructure }) => {
        const status = await readPipelineStatus(adapters, config, infrastructure.endpoints);
        console.log(json ? JSON.stringify(status, null, 2) : picture(status, new Date()));
      }),
    );

const number = (value: number): string => value.toLocaleString('en-US');

export const picture = (status: PipelineStatus, now: Date): string => {
  const { outbox, relay, pausedProjections, standingKeys, outOfTime, logBreaks, readModels } = status;
  return [
    'OUTBOX',
    `  ${outbox.rowsAreEstimated ? 'about ' : ''}${number(outbox.rows)} rows, newest id ${outbox.newestId}, ${ago(outbox.newestAt, now)}`,
    'RELAY',
    ...relayPicture(relay, now).map((line) => `  ${line}`),
    'TOPICS',
    indent(topicsPicture(status)),
    ...logBreaks.map((told) => `  ${logBreakLine(told, now)}`),
    'READ MODELS',
    indent(
      table(
        readModels.map(({ table: name, rows, updatedAt }) => [
          name,
          `${number(rows)} rows`,
          ago(updatedAt, now),
        ]),
      ),
    ),
    ...pausedProjections.map((paused) => `  ${pausedLine(paused, now)}`),
    ...standingKeys.map((standing) => `  ${standingKeysLine(standing, now)}`),
    ...outOfTime.map((told) => `  ${outOfTimeLine(told)}`),
    ...modelLines(status, now).map((line) => `  ${line}`),
  ].join('\n');
};

const pausedLine = (
  { projection, by, since, because }: PipelineStatus['pausedProjections'][number],
  now: Date,
): string =>
  `${projection}: PAUSED ${ago(since, now)} by ${by}${because ? `: ${because}` : ''}. Let it go on with npx millrace topologies resume ${projection}`;

const standingKeysLine = (
  {
    projection,
    because,
    keys,
    records,
    since,
    example,
    missingVersion,
  }: PipelineStatus['standingKeys'][number],
  now: Date,
): string => {
  const what = `${projection}: ${number(keys)} ${keys === 1 ? 'key stands' : 'keys stand'} still with ${number(records)} ${records === 1 ? 'record' : 'records'} (${example}, ${ago(since, now)})`;
  return because === 'parked'
    ? `${what}: an earlier record is among the dead letters (npx millrace dlq list --projection ${projection}). When its cause is mended: npx millrace dlq replay --key ${quoted(example)} --projection ${projection} --yes`
    : `${what}: version ${missingVersion} is missing. It may be on its way (npx millrace outbox failed), or a dead letter (npx millrace dlq list --projection ${projection} --key ${quoted(example)}). If it will never come: npx ${skipCommand({ projection, key: example, version: missingVersion ?? 1 })}`;
};

const logBreakLine = (
  { projection, topic, kind, partitions, at, resyncFromId }: PipelineStatus['logBreaks'][number],
  now: Date,
): string =>
  `${topic} ${kind === 'recreated' ? 'was deleted and made anew' : 'has lost the end of its log'} under ${projection} (${partitions} ${partitions === 1 ? 'partition' : 'partitions'}, ${ago(at, now)}): events may be missing. npx millrace relay resync --from-id ${resyncFromId} publishes them again`;

const outOfTimeLine = ({
  projection,
  lateRecords,
  earlyRecords,
}: PipelineStatus['outOfTime'][number]): string =>
  `${projection}: in no window are ${number(lateRecords)} records that came too late and ${number(earlyRecords)} whose time lies too far in the future`;

const topicsPicture = ({ topics, brokerTrouble }: PipelineStatus): string =>
  brokerTrouble
    ? `not known: ${brokerTrouble}`
    : table([
        ['PROJECTION', 'TOPIC', 'LAG', 'PARTITIONS (checkpoint/end)'],
        ...topics.map(({ projection, topic, isMissing, lag, partitions }) => [
          projection,
          topic,
          isMissing ? '-' : number(lag),
          isMissing
            ? 'does not exist: npx millrace topics apply'
            : partitions.map(({ checkpoint, endOffset }) => `${checkpoint ?? '-'}/${endOffset}`).join('  '),
        ]),
      ]);

const indent = (text: string): string => text.replace(/^/gm, '  ');
