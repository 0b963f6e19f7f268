import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import { contractTables, describeStateStore } from '../../support/state-store-contract.ts';

describeStateStore(
  'in memory',
  async ({ appendDerived }) => {
    const store = new MemoryStateStore({
      appendDerived,
      check: (_, row) => (Number(row.sold ?? 0) < 0 ? 'sold would be negative' : undefined),
    });
    return {
      store,
      other: store,
      readCounters: async ({ table, keyColumn, windowColumn, columns }) =>
        store.rowsOf(table).map((row) => ({
          key: String(row[keyColumn]),
          ...(windowColumn && { windowStartMs: Number(row[windowColumn]) }),
          amounts: columns.map((column) => Number(row[column])),
        })),
      readLateRecords: async (projection, place) => store.lateRecordsOf(projection, place),
      readLogBreaks: async ({ name, version }) =>
        store.logBreaks
          .filter(({ projection }) => projection.name === name && projection.version === version)
          .map(
            ({
              topic,
              partition,
              logBreak: kind,
              expectedOffset: offsetBefore,
              nextOffset,
              streamTimeMs,
            }) => ({
              topic,
              partition,
              kind,
              offsetBefore,
              nextOffset,
              streamTimeMs,
            }),
          ),
      setPaused: async (projection, isPaused) => store.setPaused(projection, isPaused),
      refused: { table: contractTables.counters, rows: [{ key: 'owed', amounts: [0, -1] }] },
      close: async () => {},
    };
  },
  { keepsTables: false },
);
