import { expect } from 'chai';
import fc from 'fast-check';
import type { FetchedPartition } from '../../../src/kafka/fetch-response.ts';
import type { FetchCall, PlannedFetch } from '../../../src/kafka/own-fetches.ts';
import { RecordQueue, type RecordQueueOptions } from '../../../src/kafka/record-queue.ts';
import { type Place, placeText, type RawBatch } from '../../../src/streams/record.ts';
import { encodeNumbered, withAttributes } from '../../support/record-batches.ts';

const places: readonly Place[] = [
  { topic: 'a', partition: 0 },
  { topic: 'a', partition: 1 },
  { topic: 'b', partition: 0 },
];
const [a0, a1, b0] = places as readonly [Place, Place, Place];
const batchRecords = 7;
const recordsPerPlace = 210;
const outOfRange = 1;

interface FetchOptions {
  readonly cutAfter?: number;
  readonly silent?: readonly Place[];
  /** Changes what comes of a place. */
  readonly damage?: (place: Place, fetchOffset: number, recordSet: Buffer) => void;
}

/** What kafkajs would ask for. Its own offsets do not count, except where nobody has said where to start. */
const call: FetchCall = {
  maxWaitTime: 250,
  maxBytes: 10_000_000,
  topics: ['a', 'b'].map((topic) => ({
    topic,
    partitions: places
      .filter((place) => place.topic === topic)
      .map(({ partition }) => ({ partition, fetchOffset: '42', maxBytes: 1_000_000 })),
  })),
};

describe('record queue', () => {
  /** The same in every place: batches of seven records. */
  const batches: Buffer[] = [];
  before(async () => {
    for (let offset = 0; offset < recordsPerPlace; offset += batchRecords) {
      batches.push(await encodeNumbered(offset, batchRecords));
    }
  });

  const bytesOf = (count: number): number => Buffer.concat(batches.slice(0, count)).length;

  /** Room for four batches of each place, and a little more: they are not all of quite the same size. */
  const fourEach = (): number => (bytesOf(4) + 100) * places.length;

  /** Answers as a broker does: from the batch that has the offset, and cut off in the middle of one. */
  const answer = (planned: PlannedFetch, options: FetchOptions = {}): readonly FetchedPartition[] =>
    planned.call.topics.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, fetchOffset, maxBytes }) => {
        const from = Math.floor(Number(fetchOffset) / batchRecords);
        const isSilent = options.silent?.some(
          (place) => placeText(place) === placeText({ topic, partition }),
        );
        const recordSet = isSilent
          ? Buffer.alloc(0)
          : Buffer.concat(batches.slice(from)).subarray(0, options.cutAfter ?? maxBytes);
        options.damage?.({ topic, partition }, Number(fetchOffset), recordSet);
        return {
          topic,
          partition,
          errorCode: 0,
          highWatermark: recordsPerPlace,
          lastStableOffset: recordsPerPlace,
          aborted: [],
          recordSet,
        };
      }),
    );
  const nothing = (planned: PlannedFetch): readonly FetchedPartition[] =>
    answer(planned, { silent: places }).map((partition) => ({ ...partition, lastStableOffset: 0 }));

  const create = (options: Partial<RecordQueueOptions> = {}) => {
    const events: string[] = [];
    let nowMs = 1000;
    const queue = new RecordQueue({
      bytesMax: 1_000_000,
      clock: () => nowMs,
      onOutOfRange: ({ topic, partition, offset }) => events.push(`${topic}/${partition} has no ${offset}`),
      onDamage: ({ topic, partition, offset, verdict }) =>
        events.push(
          `${topic}/${partition}@${offset} ${verdict.isCondemned ? 'is condemned' : `came damaged ${verdict.deliveries} times`}`,
        ),
      onStartedByGroup: ({ topic, partition, offset }) => events.push(`${topic}/${partition} from ${offset}`),
      ...options,
    });
    const plan = (): PlannedFetch => {
      const planned = queue.plan(call);
      if (!planned) throw new Error('Nothing is asked for');
      return planned;
    };
    return {
      queue,
      events,
      plan,
      pass: (timeMs: number) => {
        nowMs += timeMs;
      },
      /** Assigned, and all of them read from there on. */
      open: (offset: number | undefined = 0) => {
        for (const place of queue.assign(places)) queue.open(place, offset);
      },
      fetch: (options?: FetchOptions) => {
        const planned = plan();
        planned.accept(answer(planned, options));
        return planned;
      },
    };
  };
  const asked = (planned: PlannedFetch | undefined): readonly string[] =>
    (planned?.call.topics ?? []).flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, fetchOffset }) => `${topic}/${partition}@${fetchOffset}`),
    );
  const offsetsOf = ({ records }: RawBatch): readonly number[] => records.map(({ offset }) => offset);
  const summary = (taken: readonly RawBatch[]): readonly string[] =>
    taken.map((batch) => `${placeText(batch)} ${batch.fromOffset}..${batch.nextOffset}`).sort();

  it('asks for nothing before it is known where to start, and then from there', () => {
    const { queue, events } = create();
    const assigned = queue.assign(places);
    expect(queue.plan(call)).to.equal(undefined);
    queue.open(assigned[1] as (typeof assigned)[1] & Place, 70);
    expect(asked(queue.plan(call))).to.deep.equal(['a/1@70']);
    queue.open(assigned[0] as (typeof assigned)[0] & Place, undefined);
    expect(asked(queue.plan(call)), 'where nobody has been, the group decides').to.deep.equal([
      'a/0@42',
      'a/1@70',
    ]);
    expect(events).to.deep.equal(['a/0 from 42']);
    expect(asked(queue.plan(call))).to.deep.equal(['a/0@42', 'a/1@70']);
    expect(events, 'and it decides once').to.have.length(1);
  });

  it('hands out what was fetched in order, one batch per place, each following on the last', () => {
    const { queue, open, fetch } = create();
    open(3);
    fetch({ cutAfter: 3000 });
    const first = queue.take(30);
    const second = queue.take(30);
    expect(first.map(({ records }) => records.length)).to.deep.equal([10, 10, 10]);
    expect(summary(first)).to.deep.equal(['a/0 3..13', 'a/1 3..13', 'b/0 3..13']);
    expect(summary(second).map((text) => text.split('..')[0])).to.deep.equal(['a/0 13', 'a/1 13', 'b/0 13']);
    for (const batch of [...first, ...second]) {
      expect(offsetsOf(batch)).to.deep.equal(
        Array.from({ length: batch.records.length }, (_, index) => batch.fromOffset + index),
      );
    }
  });

  it('goes on behind the last whole batch', () => {
    const { queue, open, fetch } = create();
    open();
    fetch({ cutAfter: bytesOf(2) + 20 });
    expect(asked(queue.plan(call))).to.deep.equal(['a/0@14', 'a/1@14', 'b/0@14']);
  });

  it('shares what may be taken: who has little gives all of it, the others the rest', () => {
    const { queue, open, plan } = create();
    open();
    const planned = plan();
    const given = new Map([
      ['a/0', bytesOf(10)],
      ['a/1', bytesOf(1)],
      ['b/0', bytesOf(10)],
    ]);
    planned.accept(
      answer(planned).map((fetched) => ({
        ...fetched,
        recordSet: fetched.recordSet.subarray(0, given.get(placeText(fetched))),
      })),
    );
    expect(summary(queue.take(47))).to.deep.equal(['a/0 0..20', 'a/1 0..7', 'b/0 0..20']);
  });

  it('does not keep anybody waiting when there are more places than records to take', () => {
    const { queue, open, fetch } = create();
    open();
    fetch();
    const seen = new Set<string>();
    for (let turn = 0; turn < 6; turn++) {
      const taken = queue.take(2);
      expect(taken.flatMap(offsetsOf)).to.have.length(2);
      for (const batch of taken) seen.add(placeText(batch));
    }
    expect([...seen].sort()).to.deep.equal(['a/0', 'a/1', 'b/0']);
  });

  it('asks for places again when half of their share is taken, and not before', () => {
    const { queue, open, fetch } = create({ bytesMax: fourEach() });
    open();
    fetch({ cutAfter: bytesOf(3) });
    expect(queue.plan(call), 'three of four batches are there').to.equal(undefined);
    queue.take(places.length);
    expect(asked(queue.plan(call))).to.deep.equal(['a/0@21', 'a/1@21', 'b/0@21']);
  });

  it('hurries while a place is full: a broker must not sit on the request for the others', () => {
    const { open, fetch, plan } = create({ bytesMax: fourEach() });
    open();
    expect(fetch({ cutAfter: bytesOf(3), silent: [b0] }).call.maxWaitTime).to.equal(250);
    expect(asked(plan())).to.deep.equal(['b/0@0']);
    expect(plan().call.maxWaitTime).to.be.below(50);
  });

  it('tells who waits for room as soon as there is some', async () => {
    const { queue, open, fetch } = create({ bytesMax: fourEach() });
    open();
    fetch({ cutAfter: bytesOf(3) });
    let isFree = false;
    const freed = queue.freed.wait(60_000).then(() => {
      isFree = true;
    });
    await Promise.resolve();
    expect(isFree).to.equal(false);
    queue.take(3);
    await freed;
  });

  it('tells who waits for records as soon as there are some', async () => {
    const { queue, open, plan } = create();
    open();
    const planned = plan();
    const arrived = queue.arrived.wait(60_000);
    planned.accept(answer(planned));
    await arrived;
  });

  it('drops what was read and what is on its way when somebody seeks, and reads anew after a pause', () => {
    const { queue, open, fetch, plan, pass } = create();
    open();
    fetch({ cutAfter: 2000 });
    const underWay = plan();
    const before = queue.take(3).find((batch) => placeText(batch) === 'a/0');
    const reading = queue.seek(a0, 70, { afterMs: 500 });
    underWay.accept(answer(underWay));
    expect(reading).to.be.above(before?.reading ?? Number.NaN);
    expect(queue.take(1000).map(placeText).sort()).to.deep.equal(['a/1', 'b/0']);
    expect(asked(queue.plan(call)).some((text) => text.startsWith('a/0'))).to.equal(false);
    pass(500);
    expect(asked(queue.plan(call))).to.include('a/0@70');
    fetch();
    const after = queue.take(1000).find((batch) => placeText(batch) === 'a/0');
    expect(after).to.include({ reading, fromOffset: 70 });
  });

  it('drops everything with a new assignment, also what was asked for before it', () => {
    const { queue, open, fetch, plan } = create();
    open();
    fetch({ cutAfter: 2000 });
    const underWay = plan();
    const [again] = queue.assign([a0]);
    expect(queue.take(1000)).to.deep.equal([]);
    if (again) queue.open(again, 14);
    underWay.accept(answer(underWay));
    expect(queue.take(1000), 'though it is the very offset').to.deep.equal([]);
    expect(queue.has(a1)).to.equal(false);
    fetch();
    expect(queue.take(1000)[0]).to.include({ ...again, fromOffset: 14 });
  });

  it('does not open a place for an answer to an earlier question', () => {
    const { queue } = create();
    const [old] = queue.assign([a0]);
    queue.assign([a0]);
    if (old) queue.open(old, 5);
    expect(queue.plan(call)).to.equal(undefined);
  });

  it('knows when everything that the broker has was taken', () => {
    const { queue, open, plan, fetch } = create();
    open(196);
    expect(queue.isCaughtUp(a0), 'nothing was heard yet').to.equal(false);
    fetch();
    expect(queue.isCaughtUp(a0), 'not taken').to.equal(false);
    queue.take(1000);
    expect(queue.isCaughtUp(a0)).to.equal(true);
    expect(queue.isCaughtUp(a0, 999)).to.equal(true);
    expect(queue.isCaughtUp(a0, 1000), 'the broker was not asked after that').to.equal(false);
    const planned = plan();
    planned.accept(
      nothing(planned).map((fetched) => ({ ...fetched, lastStableOffset: recordsPerPlace + 1 })),
    );
    expect(queue.isCaughtUp(a0), 'there is more').to.equal(false);
    queue.seek(a0, 3);
    expect(queue.isCaughtUp(a0)).to.equal(false);
    expect(queue.isCaughtUp({ topic: 'c', partition: 0 })).to.equal(false);
  });

  it('closes a place whose offset is gone, and leaves the others alone', () => {
    const { queue, open, plan, events } = create();
    open(5);
    const planned = plan();
    const gone = (fetched: FetchedPartition) =>
      placeText(fetched) === 'a/1'
        ? { ...fetched, errorCode: outOfRange, recordSet: Buffer.alloc(0) }
        : fetched;
    planned.accept(answer(planned).map(gone));
    expect(events).to.deep.equal(['a/1 has no 5']);
    expect(asked(queue.plan(call)).some((text) => text.startsWith('a/1'))).to.equal(false);
    expect(queue.take(1000).map(placeText).sort()).to.deep.equal(['a/0', 'b/0']);
  });

  describe('asks for a log, and not only for offsets', () => {
    const [old, anew] = ['topic 1', 'topic 2'];
    /** Only the first place is open, with what was read there before. */
    const openAt = (
      offset: number,
      log: { topicId: string; leaderEpoch: number | undefined },
      topicId = old,
    ) => {
      const created = create();
      const [first] = created.queue.assign(places);
      if (first) created.queue.open(first, offset, { log, topicId });
      return created;
    };
    const askedOf = (planned: PlannedFetch) => {
      const [partition] = planned.call.topics[0]?.partitions ?? [];
      return [partition?.topicId, partition?.fetchOffset, partition?.lastFetchedEpoch];
    };
    const parting = (planned: PlannedFetch, divergence: { leaderEpoch: number; endOffset: number }) =>
      nothing(planned).map((fetched) => ({ ...fetched, divergence: { ...divergence, logStartOffset: 3 } }));
    const epoch = (batch: Buffer, leaderEpoch: number): Buffer => {
      const changed = Buffer.from(batch);
      changed.writeInt32BE(leaderEpoch, 12);
      return changed;
    };

    it('with the epoch of what was read last, and gives it out with what is taken', () => {
      const { queue, plan } = openAt(7, { topicId: old, leaderEpoch: 4 });
      const planned = plan();
      expect(askedOf(planned)).to.deep.equal([old, '7', 4]);
      const [second, third] = batches.slice(1, 3) as [Buffer, Buffer];
      planned.accept(
        answer(planned).map((fetched) => ({
          ...fetched,
          recordSet: Buffer.concat([epoch(second, 4), epoch(third, 6)]),
        })),
      );
      expect(askedOf(plan())).to.deep.equal([old, '21', 6]);
      expect(queue.take(5)[0]?.log).to.deep.equal({ topicId: old, leaderEpoch: 4 });
      expect(queue.take(5)[0]?.log).to.deep.equal({ topicId: old, leaderEpoch: 6 });
    });

    it('of another topic from its beginning, and says so once a broker has answered for it', () => {
      const { queue, plan } = openAt(70, { topicId: old, leaderEpoch: 4 }, anew);
      expect(queue.take(100)).to.deep.equal([]);
      const planned = plan();
      expect(askedOf(planned)).to.deep.equal([anew, '0', undefined]);
      planned.accept(answer(planned));
      const [told] = queue.take(100);
      expect(told).to.deep.include({ fromOffset: 0, nextOffset: 0, records: [], logBreak: 'recreated' });
      expect(told?.log).to.deep.equal({ topicId: anew, leaderEpoch: undefined });
      expect(queue.take(7)[0]).to.deep.include({ fromOffset: 0, nextOffset: 7 });
    });

    it('of a topic without records, too', () => {
      const { queue, plan } = openAt(70, { topicId: old, leaderEpoch: 4 }, anew);
      const planned = plan();
      planned.accept(nothing(planned));
      expect(queue.isCaughtUp(a0)).to.equal(false);
      expect(queue.take(100)[0]?.logBreak).to.equal('recreated');
      expect(queue.isCaughtUp(a0)).to.equal(true);
    });

    it('that has lost its end, from there where it has the epoch, and from its beginning where it has not', () => {
      for (const [leaderEpoch, begin] of [
        [4, 50],
        [2, 3],
      ] as const) {
        const { queue, plan } = openAt(70, { topicId: old, leaderEpoch: 4 });
        const planned = plan();
        planned.accept(parting(planned, { leaderEpoch, endOffset: 50 }));
        const again = plan();
        expect(askedOf(again)).to.deep.equal([old, String(begin), leaderEpoch === 4 ? 4 : undefined]);
        again.accept(answer(again));
        expect(queue.take(100)[0]).to.deep.include({ nextOffset: begin, logBreak: 'truncated' });
      }
    });

    it('and asks from what was taken where the lost records still wait to be', () => {
      const { queue, plan } = openAt(7, { topicId: old, leaderEpoch: 4 });
      const planned = plan();
      planned.accept(
        answer(planned).map((fetched) => ({ ...fetched, recordSet: epoch(batches[1] as Buffer, 4) })),
      );
      expect(queue.take(3)[0]?.nextOffset).to.equal(10);
      const next = plan();
      expect(askedOf(next)).to.deep.equal([old, '14', 4]);
      next.accept(parting(next, { leaderEpoch: 4, endOffset: 12 }));
      expect(queue.take(100)).to.deep.equal([]);
      expect(askedOf(plan())).to.deep.equal([old, '10', 4]);
    });
  });

  it('moves over offsets without records', async () => {
    const { queue, open, plan } = create();
    open();
    const planned = plan();
    const emptied = Buffer.from(await encodeNumbered(0, 7));
    // The attributes of what a transaction writes about itself.
    const control = withAttributes(emptied, () => 0x30);
    planned.accept(
      answer(planned, { silent: [a1, b0] }).map((fetched) =>
        placeText(fetched) === 'a/0' ? { ...fetched, recordSet: control } : fetched,
      ),
    );
    const [batch] = queue.take(1000);
    expect(batch).to.deep.include({ topic: 'a', fromOffset: 0, nextOffset: 7, records: [] });
    expect(queue.take(1000)).to.deep.equal([]);
  });

  it('tells which places are asked for and not heard of', () => {
    const { queue, open, plan, fetch, pass } = create();
    const silent = () => queue.silentSince(2000).map(placeText);
    open();
    pass(5000);
    expect(silent()).to.deep.equal(['a/0', 'a/1', 'b/0']);
    fetch({ silent: [b0] });
    expect(silent(), 'the broker has something for it, but it does not come').to.deep.equal(['b/0']);
    const planned = plan();
    planned.accept(nothing(planned));
    expect(silent(), 'there is nothing for it').to.deep.equal([]);
  });

  it('does not take a place for silent that is full', () => {
    const { queue, open, fetch, pass } = create({ bytesMax: fourEach() });
    open();
    fetch({ cutAfter: bytesOf(3) });
    pass(5000);
    expect(queue.silentSince(5500)).to.deep.equal([]);
    queue.take(places.length);
    expect(queue.silentSince(5500), 'it is asked for from now on').to.deep.equal([]);
  });

  describe('while it is paused', () => {
    it('asks for nothing and gives nothing, and goes on where it stood', async () => {
      const { queue, open, fetch, plan } = create();
      open();
      const underWay = plan();
      queue.setPaused(true);
      expect(queue.plan(call)).to.equal(undefined);
      underWay.accept(answer(underWay, { cutAfter: bytesOf(1) }));
      const { bytes } = queue;
      expect(queue.take(100)).to.deep.equal([]);
      let woken = 0;
      const waiting = Promise.all(
        [queue.freed, queue.arrived].map((signal) => signal.wait(60_000).then(() => woken++)),
      );
      queue.setPaused(false);
      await waiting;
      expect([woken, queue.bytes]).to.deep.equal([2, bytes]);
      expect(summary(queue.take(3 * batchRecords))).to.deep.equal(['a/0 0..7', 'a/1 0..7', 'b/0 0..7']);
      fetch({ cutAfter: bytesOf(2) });
      expect(summary(queue.take(1000)).map((text) => text.split('..')[0])).to.deep.equal([
        'a/0 7',
        'a/1 7',
        'b/0 7',
      ]);
    });

    it('is not silent, and has its full time to be heard of afterwards', () => {
      const { queue, open, pass } = create();
      open();
      pass(60_000);
      queue.setPaused(true);
      expect(queue.silentSince(50_000)).to.deep.equal([]);
      pass(60_000);
      queue.setPaused(false);
      expect(queue.silentSince(100_000)).to.deep.equal([]);
      pass(60_000);
      expect(queue.silentSince(180_000)).to.have.length(3);
    });

    it('does not know how the topics ended before: they have to be asked anew', () => {
      const { queue, open, fetch, plan } = create();
      open(recordsPerPlace);
      fetch();
      expect(queue.isCaughtUp(a0)).to.equal(true);
      queue.setPaused(true);
      queue.setPaused(false);
      expect(queue.isCaughtUp(a0)).to.equal(false);
      const planned = plan();
      planned.accept(answer(planned));
      expect(queue.isCaughtUp(a0)).to.equal(true);
    });

    it('stays so when places are given out anew', () => {
      const { queue, open } = create();
      queue.setPaused(true);
      open();
      expect(queue.plan(call)).to.equal(undefined);
      queue.setPaused(false);
      expect(queue.plan(call)).not.to.equal(undefined);
    });
  });

  describe('when a batch comes damaged', () => {
    /** In the second batch of one place, whichever byte of it. */
    const inSecondOf =
      (target: Place, byteAt: (delivery: number) => number, deliveries = { count: 0 }) =>
      (place: Place, fetchOffset: number, recordSet: Buffer): void => {
        if (placeText(place) !== placeText(target) || fetchOffset > batchRecords) return;
        const start = fetchOffset === 0 ? (batches[0] as Buffer).length : 0;
        const at = start + byteAt(deliveries.count++);
        recordSet[at] = (recordSet[at] as number) ^ 1;
      };
    const takeAll = (queue: RecordQueue) => queue.take(1000).filter((batch) => batch.topic === 'a');
    const ofA0 = (taken: readonly RawBatch[]) => taken.find(({ partition }) => partition === 0);

    it('fetches it again, while the other places go on, and gives it whole', () => {
      const { queue, events, open, fetch, plan, pass } = create();
      open();
      fetch({ damage: inSecondOf(a0, () => 100) });
      expect(summary(takeAll(queue))).to.deep.equal(['a/0 0..7', 'a/1 0..210']);
      expect(events).to.deep.equal(['a/0@7 came damaged 1 times']);
      expect(asked(plan()), 'after a pause').to.not.include('a/0@7');
      pass(100);
      expect(asked(fetch())).to.include('a/0@7');
      const [batch] = takeAll(queue);
      expect(summary(batch ? [batch] : [])).to.deep.equal(['a/0 7..210']);
      expect(batch?.records.filter(({ damage }) => damage)).to.deep.equal([]);
      expect(events).to.have.length(1);
    });

    it('condemns it as one record when the broker delivers the same damage every time', () => {
      const { queue, events, open, fetch, pass } = create();
      open();
      const damage = inSecondOf(a0, () => 100);
      const given: RawBatch[] = [];
      for (let delivery = 0; delivery < 4; delivery++) {
        fetch({ damage });
        given.push(...takeAll(queue).filter(({ partition }) => partition === 0));
        pass(10_000);
      }
      expect(events).to.deep.equal([
        'a/0@7 came damaged 1 times',
        'a/0@7 came damaged 2 times',
        'a/0@7 came damaged 3 times',
        'a/0@7 is condemned',
      ]);
      expect(summary(given)).to.deep.equal(['a/0 0..7', 'a/0 7..210']);
      const [stands, next] = given[1]?.records ?? [];
      expect(stands?.offset).to.equal(7);
      expect(stands?.damage?.message).to.equal(
        'The batch of offsets 7 to 13 is damaged: its checksum is wrong',
      );
      expect(next).to.deep.include({ offset: 14 }).and.not.have.property('damage');
    });

    it('never condemns what is damaged in another way each time: the records are there', () => {
      const { queue, events, open, fetch, pass } = create();
      open();
      const damage = inSecondOf(a0, (delivery) => 100 + delivery);
      for (let delivery = 0; delivery < 20; delivery++) {
        fetch({ damage });
        const taken = ofA0(takeAll(queue));
        if (delivery > 0) expect(taken).to.equal(undefined);
        pass(10_000);
      }
      expect(events.at(-1)).to.equal('a/0@7 came damaged 20 times');
      expect(queue.silentSince(0)).to.deep.equal([]);
      fetch();
      expect(ofA0(takeAll(queue))).to.deep.include({ fromOffset: 7, nextOffset: 210 });
    });

    it('takes a batch whose format looks old for damaged, too: the checksum leaves that out', () => {
      const { queue, events, open, fetch, pass } = create();
      open();
      fetch({ damage: inSecondOf(a0, () => 16) });
      takeAll(queue);
      expect(events).to.deep.equal(['a/0@7 came damaged 1 times']);
      pass(100);
      fetch();
      expect(ofA0(takeAll(queue))?.records.filter(({ damage }) => damage)).to.deep.equal([]);
    });
  });

  describe('whatever happens, in whatever order', () => {
    const place = fc.constantFrom(...places);
    const action = fc.oneof(
      { weight: 5, arbitrary: fc.record({ do: fc.constant('ask' as const) }) },
      {
        weight: 5,
        arbitrary: fc.record({
          do: fc.constant('answer' as const),
          cutAfter: fc.integer({ min: 0, max: 5000 }),
        }),
      },
      {
        weight: 4,
        arbitrary: fc.record({ do: fc.constant('take' as const), max: fc.integer({ min: 1, max: 60 }) }),
      },
      fc.record({ do: fc.constant('seek' as const), place, offset: fc.nat(recordsPerPlace - 1) }),
      fc.record({
        do: fc.constant('assign' as const),
        places: fc.subarray([...places]),
        offset: fc.nat(recordsPerPlace - 1),
      }),
    );

    it('gives each reading without a gap and nothing twice, and stays bounded', () => {
      const batchBytes = bytesOf(batches.length) / batches.length;
      const bytesMax = batchBytes * 12;
      fc.assert(
        fc.property(fc.array(action, { minLength: 5, maxLength: 60 }), fc.boolean(), (actions, lastFirst) => {
          const { queue } = create({ bytesMax });
          /** What is to come next, by reading. */
          const next = new Map<number, number>();
          const current = new Map<string, number>();
          const underWay: PlannedFetch[] = [];
          for (const step of actions) {
            if (step.do === 'ask') {
              const planned = queue.plan(call);
              if (planned) underWay.push(planned);
            } else if (step.do === 'answer') {
              const planned = lastFirst ? underWay.pop() : underWay.shift();
              planned?.accept(answer(planned, { cutAfter: step.cutAfter }));
            } else if (step.do === 'seek') {
              const reading = queue.seek(step.place, step.offset);
              if (current.has(placeText(step.place))) current.set(placeText(step.place), reading);
              next.set(reading, step.offset);
            } else if (step.do === 'assign') {
              current.clear();
              for (const assigned of queue.assign(step.places)) {
                queue.open(assigned, step.offset);
                current.set(placeText(assigned), assigned.reading);
                next.set(assigned.reading, step.offset);
              }
            } else {
              const taken = queue.take(step.max);
              expect(taken.flatMap(offsetsOf).length).to.be.at.most(step.max);
              expect(new Set(taken.map(placeText)).size).to.equal(taken.length);
              for (const batch of taken) {
                expect(batch.reading).to.equal(current.get(placeText(batch)));
                expect(batch.fromOffset).to.equal(next.get(batch.reading));
                expect(offsetsOf(batch)).to.deep.equal(
                  Array.from({ length: batch.nextOffset - batch.fromOffset }, (_, i) => batch.fromOffset + i),
                );
                next.set(batch.reading, batch.nextOffset);
              }
            }
            expect(queue.bytes).to.be.at.most(
              bytesMax + batchBytes * places.length + 64 * 1024 * places.length,
            );
          }
        }),
        { numRuns: 500 },
      );
    });
  });
});
