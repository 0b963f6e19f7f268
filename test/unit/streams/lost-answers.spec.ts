import { expect } from 'chai';
import { Lane } from '../../../src/streams/lane.ts';
import { PauseGate } from '../../../src/streams/pause-gate.ts';
import type { StateStore } from '../../../src/streams/ports.ts';
import { silentObserver } from '../../../src/streams/silent-observer.ts';
import type { CounterTable } from '../../../src/streams/tables.ts';
import { MemoryStateStore } from '../../../src/streams/testing/memory-state-store.ts';
import { asRecord, fact, facts, jsonDecoder, specTopology } from '../../support/json-stream.ts';
import { silentLog } from '../../support/silent-log.ts';

const counts = { table: 'counts', keyColumn: 'id', columns: ['seen'] } as const satisfies CounterTable;

describe('a commit whose answer is lost', () => {
  it('is reported as applied all the same: somebody may wait for just that', async () => {
    const store = new MemoryStateStore();
    let isLost = true;
    const seen: StateStore = {
      loadPlaces: (...given) => store.loadPlaces(...given),
      loadHandled: (...given) => store.loadHandled(...given),
      loadStates: (...given) => store.loadStates(...given),
      findDue: (...given) => store.findDue(...given),
      loadChanged: (...given) => store.loadChanged(...given),
      commit: async (batch) => {
        const outcome = await store.commit(batch);
        if (!isLost) return outcome;
        isLost = false;
        throw new Error('The connection is gone');
      },
    };
    const lane = new Lane({
      topology: specTopology((t) => {
        t.stream(facts).groupByKey().count(counts, 'seen', { action: 'SEEN' });
      }),
      store: seen,
      deadLetters: { send: async () => {} },
      observer: silentObserver,
      settings: { retryDelayMs: 1, handledIdsMax: 100, statesMax: 100 },
      gate: new PauseGate(),
      clock: () => 0,
      pause: async () => {},
      seek: () => 2,
      stopping: new AbortController().signal,
      log: silentLog(),
    });
    const place = { topic: 'facts', partition: 0, reading: 1 };
    await lane.assign([place]);
    const { value } = asRecord(fact());
    const bytes = value ?? Buffer.alloc(0);
    const raw = {
      offset: 0,
      timestampMs: 0,
      key: Buffer.from('a'),
      value,
      headers: {},
      replay: undefined,
      bytes,
      valueStart: 0,
      valueEnd: bytes.length,
    };
    const batch = await jsonDecoder.decode({ ...place, fromOffset: 0, records: [raw], nextOffset: 1 });
    const round = await lane.compute([batch]);
    if (!round) throw new Error('There is nothing to settle');
    expect(await lane.settle(round)).to.deep.equal([{ topic: 'facts', partition: 0, offset: 1 }]);
    expect(store.rowsOf('counts')).to.deep.equal([{ id: 'a', seen: 1 }]);
  });
});
