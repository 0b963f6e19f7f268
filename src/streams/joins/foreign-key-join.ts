import { follow, type StepContext, type TopologyNode } from '../graph.ts';
import { keyed } from '../keyed.ts';
import { openWay, type RepartitionedTopology, type Way } from '../repartition.ts';
import type { StateDefinition } from '../tables.ts';
import type { JoinedTable } from './table-join.ts';

export interface ForeignKeyJoinOptions {
  /** The name of the joined table; what is known of who refers to a row is kept as `<name>/subscribers`. */
  readonly name: string;
  /** Part of the ids of what goes to the other key and back, through the outbox and the repartition topic. */
  readonly through: string;
  /** Rows that may refer to one row of the other table: what is beyond that fails. */
  readonly subscribersMax?: number;
}

interface ForeignKeyJoin extends ForeignKeyJoinOptions {
  readonly keepsUnmatched: boolean;
  readonly left: JoinedTable;
  readonly right: JoinedTable;
  readonly foreignKey: (row: unknown) => string | null;
  readonly combine: (left: unknown, right: unknown) => unknown;
}

/**
 * What is known where the left row lies. A subscription has the id of the event that asked for it: whatever belongs to another
 * one is of the past. The right row is kept as it was told last, so that a left row that changes asks for nothing.
 */
interface LeftState {
  readonly foreignKey: string | null;
  readonly subscription: string | null;
  /** The number of the last answer; 0 before the first. */
  readonly answer: number;
  readonly right?: unknown;
  /** The joined row, as `toTable` keeps one. It stays as it was until the first answer to a new subscription. */
  readonly latest?: unknown;
}

/** What is known where the right row lies: who refers to it, and how many answers were given since somebody did. */
interface RightState {
  readonly answers: number;
  /**
   * Left keys by subscription. One that comes late, when its left row has long gone on, thus takes nobody's place; its left row
   * takes leave again when it gets an answer to it.
   */
  readonly subscribers: Readonly<Record<string, string>>;
}

/** From a left row to the key that it refers to. */
type Ask =
  | { readonly does: 'subscribe'; readonly leftKey: string }
  | { readonly does: 'unsubscribe'; readonly subscription: string };

/** Back: the right row as it is now; null where there is none. */
interface Answer {
  readonly rightKey: string;
  readonly subscription: string;
  /** Counts up, so that an earlier one is known when it comes later. */
  readonly answer: number;
  readonly right: unknown;
}

/** What comes to a side of the join: a change of its own table, or what the other side has sent. */
type Arrival = { readonly isSent: boolean; readonly value: unknown };

const subscribersMaxDefault = 1000;

const arrivalNode = (isSent: boolean, label: string): Omit<TopologyNode, 'children'> => ({
  kind: 'join-side',
  label,
  compile: (next) => (key, value, at) => next(key, { isSent, value } satisfies Arrival, at),
});

/**
 * A table joined with the row of another that it names. Left rows lie by their key, right rows by theirs: a left row subscribes
 * to the key that it refers to, there every change of the right row is told to those who have, and each side writes only what
 * lies where it is. All of that goes through the outbox, in the transactions of what it comes from.
 */
export const foreignKeyJoin = (
  topology: RepartitionedTopology,
  join: ForeignKeyJoin,
  changes: { readonly left: TopologyNode; readonly right: TopologyNode },
): TopologyNode => {
  const { name, through } = join;
  const asks = openWay(topology, { through: `${through}/asks` });
  const answers = openWay(topology, { through: `${through}/answers` });

  const left = follow(follow(changes.left, arrivalNode(false, `left side of ${name}`)), leftNode(join, asks));
  follow(answers.arrivals, arrivalNode(true, `answers to ${name}`)).children.push(left);

  const right = follow(
    follow(changes.right, arrivalNode(false, `right side of ${name}`)),
    rightNode(join, answers),
  );
  follow(asks.arrivals, arrivalNode(true, `subscriptions of ${name}`)).children.push(right);
  return left;
};

const leftNode = (join: ForeignKeyJoin, asks: Way): Omit<TopologyNode, 'children'> => {
  const { name, through, left, right, keepsUnmatched } = join;
  const state: StateDefinition = { name };
  return {
    kind: 'table',
    label: `${name}, ${keepsUnmatched ? 'left' : 'inner'} join of ${left.state.name} and ${right.state.name} by a foreign key, through ${through}`,
    state,
    ...asks.sender,
    meets: [left.node],
    compile: (next) => (recordKey, given, at) => {
      const key = keyed(recordKey, state);
      const [known, row] = [at.run.read(state, key), rowOf(left, key, at)];
      if (!known || !row) return;
      const before = known.value as LeftState | undefined;
      const { isSent, value } = given as Arrival;
      const after = isSent
        ? answered(before, value as Answer, { asks, at })
        : subscribed(join, before, { key, row: row.value, asks, at });
      if (after === unchanged) return;
      const latest = joinedRow(join, { before, after, row: row.value });
      const kept = after && { ...after, ...(latest !== undefined && { latest }) };
      at.run.write({ place: at.place, state, key, value: kept });
      const isWaiting = after?.subscription != null && after.answer === 0;
      const hasNone = latest === undefined && before?.latest === undefined;
      if (!isWaiting && !hasNone) next(key, latest ?? null, at);
    },
  };
};

/** Nothing has come of it. */
const unchanged = Symbol('unchanged');

/** A row as its table shows it; undefined where the state is not at hand. */
const rowOf = (table: JoinedTable, key: string, at: StepContext): { readonly value: unknown } | undefined => {
  const known = at.run.read(table.state, key);
  return known && { value: known.value === undefined ? undefined : table.shownOf(known.value) };
};

/** After a change of the left row: it goes on with what it refers to, or takes leave and asks elsewhere. */
const subscribed = (
  { foreignKey }: ForeignKeyJoin,
  before: LeftState | undefined,
  { key, row, asks, at }: Sending & { readonly key: string; readonly row: unknown },
): LeftState | undefined | typeof unchanged => {
  const isGone = row === undefined || row === null;
  if (isGone && !before) return unchanged;
  const wanted = isGone ? null : foreignKey(row);
  if (before && !isGone && wanted === before.foreignKey) return withoutRow(before);
  if (before?.subscription != null && before.foreignKey !== null) {
    takeLeave({ asks, at }, { rightKey: before.foreignKey, subscription: before.subscription });
  }
  if (isGone) return undefined;
  const ask: Ask = { does: 'subscribe', leftKey: key };
  const subscription = wanted === null ? null : asks.send(wanted, ask, at);
  return { foreignKey: wanted, subscription, answer: 0 };
};

interface Sending {
  readonly asks: Way;
  readonly at: StepContext;
}

const takeLeave = (
  { asks, at }: Sending,
  { rightKey, subscription }: Pick<Answer, 'rightKey' | 'subscription'>,
): void => {
  asks.send(rightKey, { does: 'unsubscribe', subscription } satisfies Ask, at);
};

/** What belongs to another subscription, or was told before what is known, is of the past. */
const answered = (
  before: LeftState | undefined,
  { rightKey, subscription, answer, right }: Answer,
  sending: Sending,
): LeftState | typeof unchanged => {
  if (before?.subscription !== subscription) {
    takeLeave(sending, { rightKey, subscription });
    return unchanged;
  }
  if (answer <= before.answer) return unchanged;
  const { foreignKey } = before;
  return { foreignKey, subscription, answer, ...(right !== null && { right }) };
};

const withoutRow = ({ latest: _latest, ...rest }: LeftState): LeftState => rest;

const joinedRow = (
  { keepsUnmatched, combine }: ForeignKeyJoin,
  {
    before,
    after,
    row,
  }: {
    readonly before: LeftState | undefined;
    readonly after: LeftState | undefined;
    readonly row: unknown;
  },
): unknown => {
  if (!after || row === undefined || row === null) return undefined;
  if (after.subscription !== null && after.answer === 0) return before?.latest;
  if (after.right === undefined && !keepsUnmatched) return undefined;
  return combine(row, after.right) ?? undefined;
};

const rightNode = (join: ForeignKeyJoin, answers: Way): Omit<TopologyNode, 'children'> => {
  const { name, right } = join;
  const state: StateDefinition = { name: `${name}/subscribers` };
  return {
    kind: 'foreign-key',
    label: `rows that refer to ${right.state.name}, for ${name}`,
    state,
    ...answers.sender,
    meets: [right.node],
    compile: () => (recordKey, given, at) => {
      const key = keyed(recordKey, state);
      const [known, row] = [at.run.read(state, key), rowOf(right, key, at)];
      if (!known || !row) return;
      const before = (known.value as RightState | undefined) ?? nobody;
      const { isSent, value } = given as Arrival;
      const { subscribers, told } = isSent
        ? asked(join, before, value as Ask, { key, at })
        : { subscribers: before.subscribers, told: Object.keys(before.subscribers) };
      if (subscribers === before.subscribers && told.length === 0) return;
      const answer = before.answers + 1;
      const isNeeded = Object.keys(subscribers).length > 0;
      const after: RightState | undefined = isNeeded ? { answers: answer, subscribers } : undefined;
      at.run.write({ place: at.place, state, key, value: after });
      for (const subscription of told) {
        const right = row.value ?? null;
        answers.send(
          subscribers[subscription] ?? '',
          { rightKey: key, subscription, answer, right } satisfies Answer,
          at,
        );
      }
    },
  };
};

const nobody: RightState = { answers: 0, subscribers: {} };

/** Who refers to the row after that, and who is to be told what it is. */
const asked = (
  { name, subscribersMax = subscribersMaxDefault }: ForeignKeyJoin,
  { subscribers }: RightState,
  ask: Ask,
  { key, at }: { readonly key: string; readonly at: StepContext },
): { readonly subscribers: RightState['subscribers']; readonly told: readonly string[] } => {
  if (ask.does === 'unsubscribe') {
    const { [ask.subscription]: leaving, ...others } = subscribers;
    return { subscribers: leaving === undefined ? subscribers : others, told: [] };
  }
  if (Object.keys(subscribers).length >= subscribersMax)
    throw new TooManySubscribers(name, key, subscribersMax);
  const { id } = at.origin;
  return { subscribers: { ...subscribers, [id]: ask.leftKey }, told: [id] };
};

class TooManySubscribers extends Error {
  override readonly name = 'TooManySubscribers';
  constructor(join: string, key: string, subscribersMax: number) {
    super(
      `${subscribersMax} rows refer to ${key} in the join ${join}, and every change of it is told to all of them: raise its ` +
        'subscribersMax, or look the row up in a global table instead',
    );
  }
}
