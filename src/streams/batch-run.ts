import type { Origin, OutsideCall } from './graph.ts';
import { bucketOf, HandledByBatch } from './lane-memory.ts';
import type { DerivedEvent, Fact, FactEffect, StateChange } from './ports.ts';
import { type Place, placeText } from './record.ts';
import type { CounterRow, CounterTable, StateDefinition, TableDelta } from './tables.ts';
import { isOver, keptOf } from './timers/expiring-state.ts';

/** A state as far as it is known: `value` undefined means that there is none. */
export interface KnownState {
  readonly value: unknown;
}

/** Finds states that are at hand. Undefined: it has to be loaded. */
export interface StateView {
  find(state: string, key: string): KnownState | undefined;
}

interface CountedRow extends CounterRow {
  readonly amounts: number[];
}

/** A fact, and the record that told it: an event that comes by two topics is two records. */
interface ToldFact {
  readonly fact: Fact;
  readonly eventId: string;
  readonly place: Place;
  readonly adds: { readonly table: CounterTable; readonly row: CounterRow }[];
}

export const factText = ({ aggregateType, aggregateId, action }: Fact): string =>
  JSON.stringify([aggregateType, aggregateId, action]);

/** A record, and where it was read. */
interface Where {
  readonly place: Place;
  readonly origin: Origin;
}

export interface MissedIds {
  readonly place: Place;
  readonly bucketStartMs: number;
  readonly ids: ReadonlySet<string>;
}

/** What a batch does, folded in memory: each row, state and fact once, however many records touch it. */
export class BatchRun implements StateView {
  readonly #base: StateView;
  readonly #counts = new Map<CounterTable, Map<string, CountedRow>>();
  readonly #facts = new Map<string, ToldFact>();
  readonly #states = new Map<string, Map<string, StateChange>>();
  readonly #missing = new Map<StateDefinition, Set<string>>();
  readonly #derived = new Map<string, DerivedEvent>();
  /** Values for steps that do something outside, by step. */
  readonly calls = new Map<OutsideCall, unknown[]>();
  readonly looks: (() => void)[] = [];
  readonly lateByPlace = new Map<string, number>();
  readonly earlyByPlace = new Map<string, number>();
  #missed: HandledByBatch | undefined;
  /** Facts that an earlier record of this batch told. */
  repeatedFacts = 0;
  /** The time of the task whose records run now. */
  time: { readonly streamTimeMs: number };

  constructor(base: StateView, time: BatchRun['time'] = { streamTimeMs: Number.NEGATIVE_INFINITY }) {
    this.#base = base;
    this.time = time;
  }

  add(table: CounterTable, row: { key: string; windowStartMs?: number }, column: number, by: number): void {
    let rows = this.#counts.get(table);
    if (!rows) {
      rows = new Map();
      this.#counts.set(table, rows);
    }
    const id = row.windowStartMs === undefined ? row.key : `${row.windowStartMs} ${row.key}`;
    let counted = rows.get(id);
    if (!counted) {
      counted = { ...row, amounts: new Array<number>(table.columns.length).fill(0) };
      rows.set(id, counted);
    }
    if (column >= 0) counted.amounts[column] = (counted.amounts[column] ?? 0) + by;
  }

  /** One record may add several times under its fact, as an order with several items does; another record may not. */
  addOnce(
    fact: Fact,
    { origin, place }: { readonly origin: { readonly id: string }; readonly place: Place },
    add: { table: CounterTable; row: CounterRow },
  ): void {
    const id = factText(fact);
    const told = this.#facts.get(id);
    if (!told) this.#facts.set(id, { fact, eventId: origin.id, place, adds: [add] });
    else if (told.eventId === origin.id && told.place === place) told.adds.push(add);
    else this.repeatedFacts++;
  }

  /** Two events with one id would become one, and nobody would know of the other. */
  derive(event: DerivedEvent): void {
    this.#requireNoTwin(event);
    this.#derived.set(event.id, event);
  }

  #requireNoTwin({ id, destination, causationId }: DerivedEvent): void {
    if (!this.#derived.has(id)) return;
    throw new Error(
      `Two events for ${destination} that are derived from ${causationId} have one id: the event came by two topics, ` +
        'or RxJS operators gave its id to another record',
    );
  }

  /** What this batch itself made of a state. */
  findChange(state: string, key: string): StateChange | undefined {
    return this.#states.get(state)?.get(key);
  }

  find(state: string, key: string): KnownState | undefined {
    return this.findChange(state, key) ?? this.#base.find(state, key);
  }

  /** Undefined when the state is not at hand: it is noted, and the record has to come again once it is loaded. */
  read(state: StateDefinition, key: string): KnownState | undefined {
    const known = this.#readStored(state, key);
    if (state.expireAfterMs === undefined) return known;
    const expiry = state.expiry ? this.#readStored(state.expiry, key) : known;
    if (!known || !expiry) return undefined;
    // Whether it is over is told by the time of the stream, not by who has looked: batches make no difference.
    if (isOver(expiry.value, this.time.streamTimeMs)) return { value: undefined };
    return state.expiry ? known : { value: keptOf(known.value) };
  }

  #readStored(state: StateDefinition, key: string): KnownState | undefined {
    const known = this.find(state.name, key);
    if (known) return known;
    const keys = this.#missing.get(state) ?? new Set();
    this.#missing.set(state, keys.add(key));
    return undefined;
  }

  write(change: StateChange): void {
    const changes = this.#states.get(change.state.name) ?? new Map<string, StateChange>();
    this.#states.set(change.state.name, changes.set(change.key, change));
  }

  noteLate(at: Where): void {
    addTo(this.lateByPlace, placeText(at.place), 1);
    this.noteMissed(at);
  }

  /** An event is in no window of a step, now or later, although it counts as handled. */
  noteMissed({ place, origin: { id, timeMs, recordedMs } }: Where): void {
    this.#missed ??= new HandledByBatch();
    this.#missed.open(place, bucketOf(recordedMs ?? timeMs)).add(id);
  }

  get missed(): readonly MissedIds[] {
    return [...(this.#missed?.entries() ?? [])];
  }

  noteEarly(place: Place): void {
    addTo(this.earlyByPlace, placeText(place), 1);
  }

  call(outside: OutsideCall, value: unknown): void {
    const values = this.calls.get(outside);
    if (values) values.push(value);
    else this.calls.set(outside, [value]);
  }

  get missing(): ReadonlyMap<StateDefinition, ReadonlySet<string>> {
    return this.#missing;
  }

  get deltas(): readonly TableDelta[] {
    return [...this.#counts].map(([table, rows]) => ({ table, rows: [...rows.values()] }));
  }

  get facts(): readonly FactEffect[] {
    return [...this.#facts.values()];
  }

  get derived(): readonly DerivedEvent[] {
    return [...this.#derived.values()];
  }

  get states(): readonly StateChange[] {
    return [...this.#states.values()].flatMap((changes) => [...changes.values()]);
  }

  /** Takes over what one record did, after it has come through whole. */
  absorb(one: BatchRun): void {
    for (const event of one.#derived.values()) this.#requireNoTwin(event);
    for (const { table, rows } of one.deltas) {
      for (const row of rows) {
        this.add(table, rowOf(row), -1, 0);
        for (const [column, by] of row.amounts.entries())
          if (by !== 0) this.add(table, rowOf(row), column, by);
      }
    }
    for (const { fact, eventId, place, adds } of one.#facts.values()) {
      for (const add of adds) this.addOnce(fact, { origin: { id: eventId }, place }, add);
    }
    for (const change of one.states) this.write(change);
    for (const event of one.#derived.values()) this.#derived.set(event.id, event);
    for (const [outside, values] of one.calls) for (const value of values) this.call(outside, value);
    this.looks.push(...one.looks);
    for (const { place, bucketStartMs, ids } of one.missed) {
      this.#missed ??= new HandledByBatch();
      const own = this.#missed.open(place, bucketStartMs);
      for (const id of ids) own.add(id);
    }
    for (const [place, count] of one.lateByPlace) addTo(this.lateByPlace, place, count);
    for (const [place, count] of one.earlyByPlace) addTo(this.earlyByPlace, place, count);
    this.repeatedFacts += one.repeatedFacts;
  }
}

const addTo = (counts: Map<string, number>, place: string, count: number): void => {
  counts.set(place, (counts.get(place) ?? 0) + count);
};

const rowOf = ({ key, windowStartMs }: CounterRow): { key: string; windowStartMs?: number } =>
  windowStartMs === undefined ? { key } : { key, windowStartMs };
