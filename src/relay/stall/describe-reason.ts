import type { TopicRefusal } from '../../kafka/publish-error.ts';
import { refusalText } from '../refusal.ts';
import type { HoldingSession, ParkedEvent, RefusedEvents, StallReason } from './stall-reason.ts';

/** A reason as a person tells it, and what that person can do. */
export interface ReasonInWords {
  readonly sentence: string;
  readonly remedy: string;
}

type ReasonOf<Kind extends StallReason['kind']> = Extract<StallReason, { kind: Kind }>;

/** One entry for every kind there is: a new one without words does not compile. */
const words: { readonly [Kind in StallReason['kind']]: (reason: ReasonOf<Kind>) => ReasonInWords } = {
  paused: ({ by, since, because }) => ({
    sentence: `The relay is paused since ${at(since)} by ${by}${because ? `: ${because}` : ''}`,
    remedy: 'Let it go on with npx millrace relay resume',
  }),
  'foreign-cursor': () => ({
    sentence:
      'The position of the relay was written by another database server, as after a restore from a dump: it says nothing about this journal',
    remedy: 'Decide from where on to publish again: npx millrace relay resync --from-id N --dry-run',
  }),
  'no-relay': () => ({
    sentence: 'No process relays, and none stands by',
    remedy: 'Start one: npx millrace up --role relay',
  }),
  'without-owner': ({ shards, of, relays }) => ({
    sentence: `Nobody relays ${of === 1 ? 'the journal' : `shard ${shards.join(', ')} of ${of}`}, though ${relays} ${relays === 1 ? 'relay is' : 'relays are'} alive`,
    remedy: 'They take it within the time of a lease; if they do not, look at their logs',
  }),
  'holder-silent': ({ lease, holder, until, movedAt }) => ({
    sentence: `${holder} holds ${lease} until ${at(until)} and ${movedAt ? `has not got anywhere since ${at(movedAt)}` : 'has never got anywhere'}`,
    remedy:
      'If it was killed, another relay takes over when the lease runs out; if it goes on like this, end that process',
  }),
  'circuit-open': ({ relay, since, lastError }) => ({
    sentence: `The circuit to Kafka is open since ${at(since)} in ${relay}${lastError ? `: ${lastError}` : ''}`,
    remedy: 'See whether the brokers answer; the relay tries them again by itself',
  }),
  'relay-trouble': ({ relay, lease, since, error }) => ({
    sentence: `${relay} is in trouble with ${lease} since ${at(since)}: ${error}`,
    remedy: 'Remove the cause; the relay keeps trying by itself and loses nothing',
  }),
  parked: ({ aggregates, events, first }) => ({
    sentence: `${events} ${events === 1 ? 'event' : 'events'} of ${aggregates} ${aggregates === 1 ? 'aggregate' : 'aggregates'} did not get through or wait behind one that did not; the oldest is ${parkedEvent(first)}`,
    remedy: first.dead
      ? 'Look at it with npx millrace outbox dead, then npx millrace outbox retry or drop'
      : 'It is tried again by itself; npx millrace outbox failed shows more',
  }),
  'topic-refused': (reason) => ({
    sentence: `${refusalText({ ...reason, kind: 'topic' })}: ${waiting(reason)}`,
    remedy: `${topicRemedies[reason.refusal]}. ${afterwards(reason)}`,
  }),
  'schema-refused': (reason) => ({
    sentence: `${refusalText({ ...reason, kind: 'schema' })}; ${waiting(reason)}`,
    remedy: `See what is wrong and how to do it instead with npx millrace schemas check. ${afterwards(reason)}`,
  }),
  'long-transaction': ({ effect, session }) => ({
    sentence: `${capitalized(sessionInWords(session))} ${effects[effect]}`,
    remedy: remedyAgainst(session),
  }),
  'slot-lost': ({ slot }) => ({
    sentence: `The server has given the replication slot ${slot} up, or somebody has dropped it`,
    remedy:
      'A relay that runs goes on in the table by itself, and nothing is lost; start one if none does, and npx millrace relay use-wal when it is to read the log again',
  }),
  'slot-inactive': ({ slot, lagBytes }) => ({
    sentence: `Nobody reads from the replication slot ${slot}${lagBytes === null ? '' : `, for which the server keeps ${bytes(lagBytes)} of log`}`,
    remedy: 'Look at the log of the relay that holds the lease, or start one with RELAY_SOURCE=wal',
  }),
  'slot-lagging': ({ slot, lagBytes }) => ({
    sentence: `The replication slot ${slot} is ${bytes(lagBytes)} of log behind`,
    remedy: 'See that the relay keeps up before the server gives the slot up (max_slot_wal_keep_size)',
  }),
  behind: ({ pending, movedAt }) => ({
    sentence: `The relay works through a backlog of ${pending} events and got further at ${at(movedAt)}`,
    remedy: 'Wait; if it stays so, use larger pages (RELAY_BATCH_SIZE_MAX) or more shards',
  }),
};

export const describeReason = (reason: StallReason): ReasonInWords =>
  // The table has the kind's own function at the kind; the compiler cannot follow a union through it.
  (words[reason.kind] as (reason: StallReason) => ReasonInWords)(reason);

const topicRemedies: Readonly<Record<TopicRefusal, string>> = {
  missing: 'Create it with npx millrace topics apply',
  forbidden: 'Grant the user of the relay the right to write to it',
  invalid: 'Choose another TOPIC_PREFIX',
};

const waiting = ({ events }: RefusedEvents): string =>
  events === 1 ? '1 event waits' : `${events} events wait`;

/** Dead ones are not tried any more, and the others not at once. */
const afterwards = ({ dead }: RefusedEvents): string =>
  dead > 0
    ? 'Then bring the dead ones back with npx millrace outbox retry --all'
    : 'Then they follow by themselves, or at once with npx millrace outbox retry --all';

const effects: Readonly<Record<ReasonOf<'long-transaction'>['effect'], string>> = {
  'its-events-wait': 'has written events, which nobody can see before it ends',
  'relay-waits-for-lock': 'holds a lock that the relay waits for',
  'slot-waits': 'keeps a new replication slot from beginning, because it was open already',
};

const sessionInWords = ({
  pid,
  user,
  application,
  state,
  transactionSince,
  querySince,
  query,
}: HoldingSession) => {
  if (pid === null) return 'a prepared transaction';
  const open = transactionSince ? `, in a transaction since ${at(transactionSince)}` : '';
  const asked = query ? `, query of ${querySince ? at(querySince) : 'unknown time'}: ${query}` : '';
  return `process ${pid} of ${user ?? 'an unknown user'} (${application || 'no application name'}, ${state ?? 'state unknown'}${open}${asked})`;
};

const remedyAgainst = ({ pid, application }: HoldingSession): string =>
  pid === null
    ? 'Find it in pg_prepared_xacts, then commit prepared or rollback prepared'
    : `End it with select pg_terminate_backend(${pid}), and find out why ${application || 'that client'} leaves transactions open`;

const parkedEvent = ({ id, aggregateType, aggregateId, dead, attempts, lastError }: ParkedEvent): string =>
  `event ${id} of ${aggregateType}/${aggregateId}, ${dead ? 'dead' : `tried ${attempts} times`}: ${lastError}`;

const at = (time: Date): string => time.toISOString();
const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const bytes = (count: number): string => {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, count)) / 3));
  return `${Number((count / 1000 ** power).toFixed(1))} ${units[power]}`;
};
