import { Command } from 'commander';
import { type PipelineStatus, readPipelineStatus } from '../app/pipeline-status.ts';
import { ago } from './ago.ts';
import { withServers } from './session.ts';
import { table } from './table.ts';

export const statusCommand = (): Command =>
  new Command('status')
    .description('The pipeline at a glance: outbox, relay, topics with lag, read models')
    .option('--json', 'as JSON')
    .action(({ json }: { json?: boolean }) =>
      withServers('looking', async ({ adapters, config }) => {
        const status = await readPipelineStatus(adapters, config);
        console.log(json ? JSON.stringify(status, null, 2) : picture(status, new Date()));
      }),
    );

const number = (value: number): string => value.toLocaleString('en-US');

export const relayPicture = (relay: PipelineStatus['relay'], now: Date): readonly string[] => [
  relay.pending === 0
    ? 'nothing pending'
    : `${number(relay.pending)} pending, oldest from ${ago(relay.oldestPendingAt, now)}`,
  `${number(relay.failed)} failed or waiting behind a failed one, ${number(relay.dead)} dead`,
  `cursor ${relay.cursor.from} → ${relay.cursor.to}, last id ${relay.cursor.lastId}`,
  relay.heldBy ? `run by ${relay.heldBy}` : 'no process is relaying',
];

export const picture = ({ outbox, relay, topics, readModels }: PipelineStatus, now: Date): string =>
  [
    'OUTBOX',
    `  ${outbox.rowsAreEstimated ? 'about ' : ''}${number(outbox.rows)} rows, newest id ${outbox.newestId}, ${ago(outbox.newestAt, now)}`,
    'RELAY',
    ...relayPicture(relay, now).map((line) => `  ${line}`),
    'TOPICS',
    indent(
      table([
        ['PROJECTION', 'TOPIC', 'LAG', 'PARTITIONS (checkpoint/end)'],
        ...topics.map(({ projection, topic, lag, partitions }) => [
          projection,
          topic,
          number(lag),
          partitions.map(({ checkpoint, endOffset }) => `${checkpoint ?? '-'}/${endOffset}`).join('  '),
        ]),
      ]),
    ),
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
  ].join('\n');

const indent = (text: string): string => text.replace(/^/gm, '  ');
