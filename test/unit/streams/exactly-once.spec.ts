import { expect } from 'chai';
import fc from 'fast-check';
import { concatMap } from 'rxjs';
import { v7 as uuidv7 } from 'uuid';
import { derivedId } from '../../../src/streams/derived-id.ts';
import type { StreamRecord } from '../../../src/streams/graph.ts';
import type { Windowed } from '../../../src/streams/kstream.ts';
import type { BatchCommit } from '../../../src/streams/ports.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import {
  createRandom,
  type Reader,
  TopologyTestDriver,
} from '../../../src/streams/testing/topology-test-driver.ts';
import { session, tumbling } from '../../../src/streams/windows.ts';
import { crashing, isCrash, type StoreFaults } from '../../support/crashing-store.ts';
import { earlyResults, earlyTotals, expectedEarly, foundEarly } from '../../support/early-streams.ts';
import { expectedPairs, foundPairs, joinStreams } from '../../support/joined-streams.ts';
import { asRecord, type Fact, fact, facts, jsonDecoder, specTopology } from '../../support/json-stream.ts';
import { expectedOfProcess, flushes, foundOfProcess, processStream } from '../../support/processed-stream.ts';

const others = { topic: 'others' } as typeof facts;
const rows = { topic: 'rows' } as typeof facts;
const names = { topic: 'names' } as typeof facts;
const counts = {
  table: 'counts',
  keyColumn: 'id',
  columns: ['seen', 'sold', 'joined', 'lookedUp'],
} as const satisfies CounterTable;
/** What windows add up to; some of its rows are refused for a while. */
const totals = {
  table: 'totals',
  keyColumn: 'id',
  columns: ['windowed', 'alone'],
} as const satisfies CounterTable;

const parts = 3;
const intoParts = concatMap((record: StreamRecord<Fact>) =>
  Array.from({ length: parts }, () => ({ ...record })),
);
const idsOf = {
  initial: [] as readonly string[],
  fold: (ids: readonly string[], { id }: Fact) => [...ids, id],
};

const joinedRow = (sum: number | undefined, row: string | undefined): string =>
  `${sum ?? 'no sum'}, ${row ?? 'no row'}`;

/** Something of everything: counts, facts, states, joins, operators that fan out, windows, timers, expiry, derived events. */
const built = specTopology((t) => {
  const stream = t.stream(facts).map((value) => {
    if (value.kind === 'failing') throw new Error('A step fails');
    return value;
  });
  stream.groupByKey().count(counts, 'seen', { action: 'SEEN' });
  const last = stream
    .groupByKey()
    .aggregate('last', { initial: { sum: 0 }, fold: ({ sum }, { amount }) => ({ sum: sum * 3 + amount }) });
  last.toStream().to({ name: 'changes' }, ({ sum }) => sum);
  const inParts = stream.pipe('parts', intoParts);
  inParts.to({ name: 'parts' }, ({ id }) => id);
  inParts
    .groupBy(({ of }) => of)
    .sum(counts, 'sold', ({ amount }) => amount, {
      action: 'SOLD',
      once: ({ kind }) => ({ aggregateType: 'Order', aggregateId: kind }),
    });

  const table = t
    .stream(rows)
    .map((row) => (row.kind === 'deleted' ? null : row))
    .toTable('rows');
  stream
    .leftJoin(table, (value, row) => ({ of: value.of, with: row?.of ?? value.of }))
    .filter((pair) => pair.of === pair.with)
    .groupByKey()
    .count(counts, 'joined', { action: 'JOINED' });
  stream.join(table, (value, row) => `${value.id} ${row.id}`).to({ name: 'joins' }, (pair) => pair);
  last.outerJoin(table, (one, other) => joinedRow(one?.sum, other?.id), { name: 'tables' });

  const global = t.globalTable(names, 'names', { rowOf: (row) => (row.kind === 'deleted' ? null : row) });
  stream
    .leftJoin(
      global,
      ({ amount }) => `k${amount % 4}`,
      (value) => value,
      { name: 'waiting', waitMs: 50 },
    )
    .groupByKey()
    .count(counts, 'lookedUp', { action: 'LOOKED_UP' });

  joinStreams(stream, t.stream(others), totals);
  processStream(stream);
  const both = stream.merge(t.stream(others));
  earlyResults(both);
  const all = both.groupByKey();
  const tumbled = all.windowedBy(tumbling({ sizeMs: 100, graceMs: 20 })).aggregate('tumbled', idsOf);
  tumbled.to({ name: 'tumbled' }, (window) => window);
  tumbled
    .groupBy(({ key }) => key)
    .sum(totals, 'windowed', ({ value }) => value.length, { action: 'WINDOWED' });
  all
    .windowedBy(session({ gapMs: 60, graceMs: 20 }))
    .aggregate('sessions', { ...idsOf, merge: (one, other) => [...one, ...other] })
    .to({ name: 'sessions' }, (window) => window);
});

interface Sent {
  readonly topic: string;
  readonly value: Fact;
}

const sidesOf = (sent: readonly Sent[]): readonly [readonly Fact[], readonly Fact[]] => {
  const of = (name: string) =>
    sent.flatMap((one) => (one.topic === name && isApplied(one) ? [one.value] : []));
  return [of('facts'), of('others')];
};

const isApplied = ({ value }: Sent): boolean => value.kind !== 'failing' && value.of !== 'refused';

/** What must come out, whatever happens on the way: the fold of the distinct events in their order. */
const expected = (sent: readonly Sent[]) => {
  const [seen, sold, last] = [
    new Map<string, number>(),
    new Map<string, number>(),
    new Map<string, number>(),
  ];
  const told = new Set<string>();
  const applied = sent.filter(isApplied);
  const ofFacts = applied.filter(({ topic }) => topic === 'facts');
  for (const { value } of ofFacts) {
    const { of, kind, amount } = value;
    seen.set(of, (seen.get(of) ?? 0) + 1);
    last.set(of, (last.get(of) ?? 0) * 3 + amount);
    if (!told.has(kind)) sold.set(of, (sold.get(of) ?? 0) + parts * amount);
    told.add(kind);
  }
  const latestNames = new Map<string, number>();
  for (const { value } of applied.filter(({ topic }) => topic === 'names'))
    latestNames.set(value.of, value.kind === 'deleted' ? 0 : value.amount);
  const intoWindows = applied.filter(({ topic }) => topic === 'facts' || topic === 'others').length;
  return {
    seen: asObject(seen),
    joined: asObject(seen),
    lookedUp: asObject(seen),
    names: asObject(latestNames),
    sold: asObject(sold),
    last: asObject(last),
    changes: ofFacts.length,
    parts: ofFacts.length * parts,
    // Every event is in one window of each kind, or was late for it.
    tumbledOrLate: intoWindows,
    sessionsOrLate: intoWindows,
    windowsTwice: 0,
    eventsTwice: 0,
    ...expectedPairs(...sidesOf(sent)),
    ...expectedOfProcess(ofFacts.map(({ value }) => value)),
    ...expectedEarly(sidesOf(sent).flat()),
    tablesApart: 0,
    stillOpen: 0,
    missingFromTotals: 0,
    letters: sent.filter((one) => !isApplied(one)).length,
  };
};

const asObject = (map: ReadonlyMap<string, number>): Record<string, number> =>
  Object.fromEntries([...map].filter(([, value]) => value !== 0).sort());

const waitingStates = [
  'tumbled',
  'sessions',
  'inner',
  'left',
  'outer',
  'waiting',
  'updated',
  'paced',
  'sliding',
  'suppressed',
];

const nameIn = (state: unknown): number => (state as { readonly latest: Fact }).latest.amount;

/** Keys whose joined row is not that of both tables. */
const tablesApart = (store: MemoryStateStore): number => {
  const [sums, kept, joined] = [store.statesOf('last'), store.statesOf('rows'), store.statesOf('tables')];
  return [...new Set([...sums.keys(), ...kept.keys(), ...joined.keys()])].filter((key) => {
    const { sum } = (sums.get(key) ?? {}) as { readonly sum?: number };
    const { latest: row } = (kept.get(key) ?? {}) as { readonly latest?: Fact };
    const { latest: found } = (joined.get(key) ?? {}) as { readonly latest?: string };
    return found !== (sum === undefined && row === undefined ? undefined : joinedRow(sum, row?.id));
  }).length;
};

const twiceIn = (values: readonly string[]): number => values.length - new Set(values).size;

const found = (store: MemoryStateStore, sent: readonly Sent[], letters: ReadonlySet<string>) => {
  const column = (table: string, name: string) =>
    asObject(new Map(store.rowsOf(table).map((row) => [String(row.id), Number(row[name])])));
  // The journal keeps one of those with the same id.
  const derived = [...new Map(store.derived.map((event) => [event.id, event])).values()];
  const of = (name: string) => derived.filter(({ destination }) => destination === name);
  const windows = ['tumbled', 'sessions'].map((name) =>
    of(name).map(({ value }) => value as Windowed<readonly string[]>),
  );
  const [tumbled = 0, sessions = 0] = windows.map((own) =>
    own.reduce((sum, { value }) => sum + value.length, 0),
  );
  const late = store.lateRecords;
  const sumOf = (name: string, table = 'totals') =>
    Object.values(column(table, name)).reduce((sum, value) => sum + value, 0);
  const last = [...store.statesOf('last')].map(([key, value]): [string, number] => [
    key,
    (value as { sum: number }).sum,
  ]);
  return {
    seen: column('counts', 'seen'),
    joined: column('counts', 'joined'),
    lookedUp: column('counts', 'lookedUp'),
    names: asObject(new Map([...store.statesOf('names')].map(([key, state]) => [key, nameIn(state)]))),
    sold: column('counts', 'sold'),
    last: asObject(new Map(last)),
    changes: of('changes').length,
    parts: of('parts').length,
    tumbledOrLate: tumbled,
    sessionsOrLate: sessions,
    late,
    // A late event may let a later session begin where an earlier one began.
    windowsTwice: twiceIn((windows[0] ?? []).map(({ key, startMs }) => `${key} ${startMs}`)),
    eventsTwice: windows.reduce((sum, own) => sum + twiceIn(own.flatMap(({ value }) => value)), 0),
    ...foundPairs((name) => of(name).map(({ value }) => value), {
      sent: sidesOf(sent),
      addedUp: sumOf('alone'),
    }),
    ...foundOfProcess(store, (name) => of(name).map(({ value }) => value)),
    ...foundEarly((name) => of(name).map(({ value }) => value), {
      latest: store.statesOf('latest'),
      addedUp: (name) => sumOf(name, earlyTotals.table),
    }),
    tablesApart: tablesApart(store),
    stillOpen: waitingStates.reduce((sum, state) => sum + store.statesOf(state).size, 0),
    missingFromTotals: tumbled - sumOf('windowed'),
    letters: letters.size,
  };
};

/** Late events are told by their sum only: what is missing in the windows must be exactly that. */
const withoutLate = ({ late, ...result }: ReturnType<typeof found>, sent: ReturnType<typeof expected>) => {
  const names = ['tumbledOrLate', 'sessionsOrLate', 'outerOrLate'] as const;
  const missing = names.reduce((sum, name) => sum + sent[name] - result[name], 0);
  const explained = Object.fromEntries(names.map((name) => [name, sent[name]]));
  return missing === late ? { ...result, ...explained } : result;
};

/** A guard that is switched off. */
interface Faults extends StoreFaults {
  readonly withFormerIds?: boolean;
  /** The topics of a key are in partitions of different numbers, so that each has a time of its own. */
  readonly withTimePerTopic?: boolean;
  readonly withoutZombies?: boolean;
}

const withFormerIds = ({ derived, ...batch }: BatchCommit): BatchCommit => ({
  ...batch,
  derived: derived.map((event) => ({ ...event, id: derivedId(event.causationId, event.destination, 0) })),
});

const partitions = 4;
const settings = { handledIdsMax: 10, statesMax: 2 };

/**
 * Several processes at once that believe in the same places, killed at any moment, ticks and time that passes, records
 * delivered again, topics read from the beginning, made anew or cut off at their ends, rows that the database refuses: all in an order that the seed decides.
 */
const live = async (seed: number, faults: Faults) => {
  const random = createRandom(seed);
  const upTo = (limit: number): number => Math.floor(random() * limit);
  const refusing = { is: true };
  const store = new MemoryStateStore({
    check: (table, row) => {
      if (table === 'counts' && row.id === 'refused') return 'This key is refused for good';
      const isSum = [totals, earlyTotals, flushes].some((one) => one.table === table);
      return isSum && row.id === 'k0' && refusing.is ? 'These sums are refused for now' : undefined;
    },
  });
  let fences = 0;
  const driver = new TopologyTestDriver({
    topology: built,
    decoder: jsonDecoder,
    store,
    seed,
    partitions,
    startMs: 10_000,
    observer: { fenced: () => fences++ },
    // So little memory that handled ids and states are forgotten and have to be found in the store again.
    settings,
  });
  const newReader = (): Reader => {
    const changed = faults.withFormerIds ? withFormerIds : undefined;
    const reader: Reader = driver.newReader(
      crashing(store, { random, faults, kill: () => reader.kill(), ...(changed && { changed }) }),
    );
    return reader;
  };
  const sent: Sent[] = [];
  const readers: Reader[] = [newReader()];

  const send = (): void => {
    const topic = ['facts', 'facts', 'others', 'rows', 'names'][upTo(5)] ?? 'facts';
    const chance = random();
    const of = chance < 0.05 && topic === 'facts' ? 'refused' : `k${upTo(4)}`;
    const kind = chance > 0.95 && topic === 'facts' ? 'failing' : `${of}-${upTo(5)}`;
    const value = fact({
      id: uuidv7(),
      of,
      kind: (topic === 'rows' || topic === 'names') && chance < 0.3 ? 'deleted' : kind,
      amount: 1 + upTo(9),
      time: driver.nowMs - upTo(150),
    });
    sent.push({ topic, value });
    publish({ topic, value });
  };
  const publish = ({ topic, value }: Sent): void => {
    const { partition } = driver.placeFor(topic, value.of);
    const apart = faults.withTimePerTopic && topic === 'others' ? 1 : 0;
    driver.sendTo({ topic, partition: (partition + apart) % partitions }, asRecord(value));
  };
  /** A topic is made anew, or a broker loses what it had last; then everything is published again, as an operator would. */
  const breakLog = (): void => {
    const topic = ['facts', 'others', 'rows'][upTo(3)] ?? 'facts';
    if (random() < 0.5) driver.recreateTopic(topic);
    else driver.truncate({ topic, partition: upTo(partitions) }, upTo(8));
    for (const one of sent) if (one.topic === topic) publish(one);
  };
  /** A lane never gives up by itself: it goes on until it has settled its rounds, or is killed and replaced. */
  const guarded = async (index: number, work: (reader: Reader) => Promise<void>): Promise<void> => {
    const reader = readers[index];
    if (!reader) return;
    try {
      await work(reader);
    } catch (error) {
      if (!isCrash(error)) throw error;
      readers[index] = newReader();
    }
  };
  const any = (): number => upTo(readers.length);
  const step = (reader: Reader): Promise<void> => reader.step();
  const tick = (reader: Reader): Promise<void> => reader.tick();

  for (let turn = 0; turn < 60; turn++) {
    const chance = random();
    const hasRoom = readers.length < (faults.withoutZombies ? 1 : 3);
    if (chance < 0.4) send();
    else if (chance < 0.43) driver.redeliver();
    else if (chance < 0.48 && hasRoom) readers.push(newReader());
    else if (chance < 0.51) readers[any()] = newReader();
    else if (chance < 0.54) readers[any()]?.rewind();
    else if (chance < 0.555) breakLog();
    else if (chance < 0.62) driver.passTime(upTo(100));
    else if (chance < 0.63) driver.passTime(upTo(70_000));
    else if (chance < 0.68) await guarded(any(), tick);
    else if (chance < 0.74) {
      const [one, other] = [any(), any()];
      const work = random() < 0.5 ? step : tick;
      await Promise.all(one === other ? [guarded(one, work)] : [guarded(one, work), guarded(other, work)]);
    } else await guarded(any(), step);
  }
  refusing.is = false;
  return { driver, store, sent, fences: () => fences };
};

const settled = async (seed: number, faults: Faults = {}) => {
  const { driver, store, sent, fences } = await live(seed, faults);
  // In the end all is well again, and one process is left.
  const last = new TopologyTestDriver({
    topology: built,
    decoder: jsonDecoder,
    store,
    seed,
    partitions,
    startMs: driver.nowMs,
    observer: { fenced: () => expect.fail('Nobody else is there') },
  });
  driver.shareTopicsWith(last);
  await last.run();
  for (let look = 0; look < 3; look++) await last.advanceWallClock(1_000_000);
  const letters = [...driver.deadLetters, ...last.deadLetters].map(
    ({ record }) => (JSON.parse(record.value?.toString() ?? '') as Fact).id,
  );
  const wanted = expected(sent);
  return {
    found: withoutLate(found(store, sent, new Set(letters)), wanted),
    expected: wanted,
    fences: fences(),
  };
};

describe('exactly once', function () {
  // About 40 s of CPU: the deadline is for machines that have other things to do.
  this.timeout(1_200_000);

  it('holds for any interleaving, redelivery, rewind, broken log, crash, refusal and zombie (2,000 seeds)', async () => {
    let fences = 0;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 2 ** 31 }), async (seed) => {
        const result = await settled(seed);
        expect(result.found).to.deep.equal(result.expected);
        fences += result.fences;
      }),
      { numRuns: 2000 },
    );
    // Zombies were there, and were told so.
    expect(fences).to.be.greaterThan(500);
  });

  it('is never in the way of a process that is alone, whatever crashes and is refused (300 seeds)', async () => {
    for (let seed = 1; seed <= 300; seed++) {
      const result = await settled(seed, { withoutZombies: true });
      expect(result.found, `seed ${seed}`).to.deep.equal(result.expected);
      expect(result.fences, `seed ${seed}`).to.equal(0);
    }
  });

  const guards: readonly (readonly [string, Faults])[] = [
    ['the handled ids', { withoutDedup: true }],
    ['any fence', { withoutFence: true }],
    ['the fence of the task: ticks, and topics that share states', { withoutTaskFence: true }],
    ['topology, step and count in the ids of derived events', { withFormerIds: true }],
    ['what tells one log from another', { withoutLogIdentity: true }],
    ['one time for all topics of a task', { withTimePerTopic: true, withoutZombies: true }],
  ];
  for (const [guard, faults] of guards) {
    it(`does not hold without ${guard}`, async () => {
      for (let seed = 1; seed <= 300; seed++) {
        const result = await settled(seed, faults);
        if (JSON.stringify(result.found) !== JSON.stringify(result.expected)) return;
      }
      expect.fail('300 seeds, and no counterexample');
    });
  }
});
