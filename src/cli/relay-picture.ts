import { ghostRemedy } from '../relay/ghosts/list-ghosts.ts';
import { wayBackToLog } from '../relay/wal/slot.ts';
import type { LateReason, RelayStatus, ShardStatus } from '../relay-admin/read-relay-status.ts';
import { ago } from './ago.ts';

const number = (value: number): string => value.toLocaleString('en-US');

/** The relays in a few lines: what waits, who does what, and what is wrong. */
export const relayPicture = (relay: RelayStatus, now: Date): readonly string[] => [
  ...pausePicture(relay, now),
  ...(relay.isIncomplete ? ['not all is told: somebody has locked a table that had to be looked at'] : []),
  relay.pending === 0
    ? 'nothing pending'
    : `${number(relay.pending)} pending, oldest from ${ago(relay.oldestPendingAt, now)}`,
  `${number(relay.failed)} failed or waiting behind a failed one, ${number(relay.dead)} dead`,
  ...relay.shards.map((shard) => shardPicture(shard, now)),
  ...standbyPicture(relay),
  ...conditionPicture(relay, now),
  ...slotPicture(relay),
  ...lossPicture(relay, now),
  ...relay.late.map(latePicture),
  ...ghostPicture(relay, now),
];

const pausePicture = ({ pause }: RelayStatus, now: Date): readonly string[] =>
  pause ? [`PAUSED ${ago(pause.since, now)} by ${pause.by}${pause.because ? `: ${pause.because}` : ''}`] : [];

const shardPicture = (shard: ShardStatus, now: Date): string => {
  const { cursor, pending, oldestPendingAt, heldBy } = shard;
  const position = `cursor ${cursor.from} → ${cursor.to}, last id ${cursor.lastId}`;
  const runBy = heldBy ? `run by ${heldBy}` : 'no process is relaying';
  if (shard.of === 1) return `${position}; ${runBy}`;
  const waiting =
    pending === 0 ? '' : `, ${number(pending)} pending, oldest from ${ago(oldestPendingAt, now)}`;
  return `shard ${shard.number} of ${shard.of}: ${position}; ${heldBy ? runBy : 'no process has it'}${waiting}`;
};

const standbyPicture = ({ shards, processes }: RelayStatus): readonly string[] => {
  const standingBy = processes
    .map(({ name }) => name)
    .filter((name) => !shards.some(({ heldBy }) => heldBy === name));
  return standingBy.length === 0 ? [] : [`standing by: ${standingBy.join(', ')}`];
};

const conditionPicture = ({ processes }: RelayStatus, now: Date): readonly string[] =>
  processes.flatMap(({ name, circuit, circuitSince, troubles }) => [
    ...(circuit === 'closed' ? [] : [`circuit ${circuit} since ${ago(circuitSince, now)} in ${name}`]),
    ...troubles.map(({ lease, since, error }) => `${name}, ${lease}: ${error} (since ${ago(since, now)})`),
  ]);

const slotPicture = ({ slot }: RelayStatus): readonly string[] =>
  slot
    ? [
        `reads the log by slot ${slot.name}: ${slot.state}, ${slot.active ? 'in use' : 'not in use'}, ${number(slot.lagBytes ?? 0)} bytes behind`,
      ]
    : [];

const lossPicture = ({ logLoss }: RelayStatus, now: Date): readonly string[] =>
  logLoss
    ? [
        `reads the table by snapshots since ${ago(logLoss.since, now)} instead of the log: ${logLoss.reason}. ${wayBackToLog}.`,
      ]
    : [];

const latePicture = ({ sentence, remedy }: LateReason): string => `LATE: ${sentence}. ${remedy}.`;

const ghostPicture = ({ ghosts: { events, search } }: RelayStatus, now: Date): readonly string[] => [
  ...(search?.nextAt
    ? [
        `the journal came to another server or timeline ${ago(search.noticedAt, now)}; what Kafka got since ${search.from.toISOString()} is being looked up`,
      ]
    : []),
  ...(search && search.unreadable > 0
    ? [`${number(search.unreadable)} records could not be read when that was looked up`]
    : []),
  ...(events > 0
    ? [`GHOSTS: Kafka has ${number(events)} events that the journal does not have. ${ghostRemedy}.`]
    : []),
];
