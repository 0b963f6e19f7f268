import type { Origin, OutsideCall, RecordOperator, Step, StreamRecord } from './graph.ts';
import type { DerivedEvent, Fact, FactEffect, StateChange } from './ports.ts';
import { type Place, placeText } from './record.ts';
import type { CounterRow, CounterTable, StateDefinition, TableDelta } from './tables.ts';

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

interface ToldFact {
  readonly fact: Fact;
  readonly by: Origin;
  readonly adds: { readonly table: CounterTable; readonly row: CounterRow }[];
}

interface Piped {
  readonly records: StreamRecord<unknown>[];
  readonly next: Step;
}

export const factText = ({ aggregateType, aggregateId, action }: Fact): string =>
  JSON.stringify([aggregateType, aggregateId, action]);

/** What a batch does, folded in memory: each row, state and fact once, however many records touch it. */
export class BatchRun implements StateView {
  readonly #base: StateView;
  readonly #counts = new Map<CounterTable, Map<string, CountedRow>>();
  readonly #facts = new Map<string, ToldFact>();
  readonly #states = new Map<string, Map<string, StateChange>>();
  readonly #missing = new Map<StateDefinition, Set<string>>();
  readonly derived: DerivedEvent[] = [];
  /** Values for steps that do something outside, by step. */
  readonly calls = new Map<OutsideCall, unknown[]>();
  readonly looks: (() => void)[] = [];
  readonly lateByPlace = new Map<string, number>();
  readonly #piped = new Map<readonly RecordOperator[], Piped>();
  /** Facts that an earlier record of this batch told. */
  repeatedFacts = 0;

  constructor(base: StateView) {
    this.#base = base;
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
  addOnce(fact: Fact, by: Origin, add: { table: CounterTable; row: CounterRow }): void {
    const id = factText(fact);
    const told = this.#facts.get(id);
    if (!told) this.#facts.set(id, { fact, by, adds: [add] });
    else if (told.by === by) told.adds.push(add);
    else this.repeatedFacts++;
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

  noteLate(place: Place): void {
    const id = placeText(place);
    this.lateByPlace.set(id, (this.lateByPlace.get(id) ?? 0) + 1);
  }

  call(outside: OutsideCall, value: unknown): void {
    const values = this.calls.get(outside);
    if (values) values.push(value);
    else this.calls.set(outside, [value]);
  }

  pipe(operators: readonly RecordOperator[], record: StreamRecord<unknown>, next: Step): void {
    const piped = this.#piped.get(operators);
    if (piped) piped.records.push(record);
    else this.#piped.set(operators, { records: [record], next });
  }

  /** The records that wait to go through the operators of a step, and what follows; each only once. */
  takePiped(): readonly (Piped & { readonly operators: readonly RecordOperator[] })[] {
    const taken = [...this.#piped].map(([operators, piped]) => ({ operators, ...piped }));
    this.#piped.clear();
    return taken;
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

  get states(): readonly StateChange[] {
    return [...this.#states.values()].flatMap((changes) => [...changes.values()]);
  }

  /** Takes over what one record did, after it has come through whole. */
  absorb(one: BatchRun): void {
    for (const { table, rows } of one.deltas) {
      for (const row of rows) {
        this.add(table, rowOf(row), -1, 0);
        for (const [column, by] of row.amounts.entries())
          if (by !== 0) this.add(table, rowOf(row), column, by);
      }
    }
    for (const { fact, by, adds } of one.#facts.values()) for (const add of adds) this.addOnce(fact, by, add);
    for (const change of one.states) this.write(change);
    this.derived.push(...one.derived);
    for (const [outside, values] of one.calls) for (const value of values) this.call(outside, value);
    this.looks.push(...one.looks);
    for (const [place, count] of one.lateByPlace) {
      this.lateByPlace.set(place, (this.lateByPlace.get(place) ?? 0) + count);
    }
    this.repeatedFacts += one.repeatedFacts;
  }
}

const rowOf = ({ key, windowStartMs }: CounterRow): { key: string; windowStartMs?: number } =>
  windowStartMs === undefined ? { key } : { key, windowStartMs };
