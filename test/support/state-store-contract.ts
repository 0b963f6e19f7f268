import { expect } from 'chai';
import type { DerivedEvent, ProjectionId, StateStore } from '../../src/streams/ports.ts';
import type { Place } from '../../src/streams/record.ts';
import type { CounterRow, CounterTable, RowTable, TableDelta } from '../../src/streams/tables.ts';
import { contractTables } from './state-store-contract/batches.ts';
import { describeCopies } from './state-store-contract/copies.ts';
import { describeHandled } from './state-store-contract/handled.ts';
import { describeCheckpoints, describeParkedKeys, describeTasks } from './state-store-contract/places.ts';
import { describeCounters, describeFacts, describeStates } from './state-store-contract/tables.ts';
import { describeWholeness } from './state-store-contract/wholeness.ts';

export { contractTables };

export interface OpenedStore {
  readonly store: StateStore;
  /** The same state as another process sees it. */
  readonly other: StateStore;
  readCounters(table: CounterTable): Promise<readonly CounterRow[]>;
  /** Rows of a read model as they lie in their table, by key. */
  readRows?(table: RowTable): Promise<ReadonlyMap<string, unknown>>;
  /** Records that came too late for their window, as an operator would find them. */
  readLateRecords(projection: ProjectionId, place: Place): Promise<number>;
  /** Where places of a projection began anew, as an operator would find them. */
  readLogBreaks(projection: ProjectionId): Promise<readonly unknown[]>;
  /** As an operator does, whatever those who run the projection know of it. */
  setPaused(projection: string, isPaused: boolean): Promise<void>;
  /** Adds to `contractTables.counters` what this store refuses as data. */
  readonly refused: TableDelta;
  close(): Promise<void>;
}

export interface StoreHooks {
  /** To be called in the transaction with what a batch derives; what it throws undoes the batch. */
  appendDerived(events: readonly DerivedEvent[]): Promise<void>;
}

export type OpenStore = (hooks: StoreHooks) => Promise<OpenedStore>;

export interface StoreUnderTest extends OpenedStore {
  /** What was derived so far, oldest first. */
  readonly derived: readonly DerivedEvent[];
  /** Lets the next batch that derives something fail with this. */
  failNextDerived(error: Error): void;
  /** Counts of one key; undefined where it has no row. */
  countsOf(key: string): Promise<readonly number[] | undefined>;
}

/** What every state store must do, whatever it keeps its state in: a fake is trusted when it passes this. */
export const describeStateStore = (
  name: string,
  open: OpenStore,
  { keepsTables }: { readonly keepsTables: boolean },
): void => {
  describe(`state store: ${name}`, () => {
    let opened: StoreUnderTest | undefined;
    before(async () => {
      opened = await openUnderTest(open);
    });
    after(() => opened?.close());
    const underTest = (): StoreUnderTest => {
      if (!opened) throw new Error('The store is there once the hooks have run');
      return opened;
    };

    describeCheckpoints(underTest);
    describeTasks(underTest);
    describeParkedKeys(underTest);
    describeHandled(underTest);
    describeFacts(underTest);
    describeCounters(underTest);
    describeStates(underTest, { keepsTables });
    describeCopies(underTest);
    describeWholeness(underTest);
  });
};

const openUnderTest = async (open: OpenStore): Promise<StoreUnderTest> => {
  const derived: DerivedEvent[] = [];
  let failure: Error | undefined;
  const opened = await open({
    appendDerived: async (events) => {
      const error = failure;
      failure = undefined;
      if (error) throw error;
      derived.push(...events);
    },
  });
  return {
    ...opened,
    derived,
    failNextDerived: (error) => {
      failure = error;
    },
    countsOf: async (key) => {
      const rows = await opened.readCounters(contractTables.counters);
      const found = rows.filter((row) => row.key === key);
      expect(found.length).to.be.lessThan(2);
      return found[0]?.amounts;
    },
  };
};
