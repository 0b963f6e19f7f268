import { type AbortedTransaction, AbortedTransactions } from './aborted-transactions.ts';
import { type BatchReader, condemnBatch, damageOfBatch, openBatch } from './batch-reader.ts';
import { BatchView } from './batch-view.ts';
import { crc32c } from './crc32c.ts';
import type { SuspectBatch } from './damage-watch.ts';
import type { FetchedPartition } from './fetch-response.ts';
import type { ReadRecord } from './fetched-record.ts';

/** What the broker sent of one partition, cut to whole batches. */
export interface RecordSet {
  readonly bytes: Buffer;
  readonly records: number;
  readonly nextOffset: number;
  /** Of the last record. */
  readonly leaderEpoch: number | undefined;
}

/** Looks at the batches' headers only: records are read when they are taken. Nothing where no batch is whole. */
export const measureRecordSet = (bytes: Buffer): RecordSet | undefined => {
  let records = 0;
  let last: BatchView | undefined;
  for (let batch = BatchView.at(bytes, 0); batch; batch = BatchView.at(bytes, batch.end)) {
    records += batch.records;
    last = batch;
  }
  return (
    last && {
      bytes: bytes.subarray(0, last.end),
      records,
      nextOffset: last.lastOffset + 1,
      leaderEpoch: last.leaderEpoch,
    }
  );
};

/** What a broker's answer has of a partition from there on; nothing where it has not even an offset to move to. */
export const recordSetFrom = (
  { recordSet, lastStableOffset }: FetchedPartition,
  fromOffset: number,
): RecordSet | undefined => {
  const set = measureRecordSet(recordSet);
  if (!set || set.nextOffset <= fromOffset) return undefined;
  // A damaged batch could claim offsets that there are not yet, and those would be passed over later.
  const nextOffset = Math.max(fromOffset + 1, Math.min(set.nextOffset, lastStableOffset));
  return { ...set, nextOffset };
};

/**
 * Hands out the records of a set in portions. Control records and those of aborted transactions are left out. Before a
 * batch that is damaged it stands still until that is condemned: it may come whole when it is fetched again.
 */
export class RecordSetReader {
  readonly #set: RecordSet;
  readonly #fromOffset: number;
  readonly #aborted: AbortedTransactions;
  #at = 0;
  #batch: BatchReader | undefined;
  #suspect: { readonly view: BatchView; readonly what: string } | undefined;
  /** Where the batch at hand ends at the latest, whatever it says itself: the next one begins there. */
  #offsetMax = 0;
  #recordsAhead: number;
  #nextOffset: number;
  #leaderEpoch: number | undefined;
  /** Of the batch at hand. */
  #batchEpoch: number | undefined;

  constructor(set: RecordSet, options: { fromOffset: number; aborted: readonly AbortedTransaction[] }) {
    this.#set = set;
    this.#fromOffset = options.fromOffset;
    this.#nextOffset = options.fromOffset;
    this.#aborted = new AbortedTransactions(options.aborted);
    this.#recordsAhead = set.records;
  }

  /** The offset to go on with after what was read. */
  get nextOffset(): number {
    return this.#nextOffset;
  }

  /** Of the record before `nextOffset`; undefined before anything was read. */
  get leaderEpoch(): number | undefined {
    return this.#leaderEpoch;
  }

  /** Of batches that were not begun yet. */
  get bytesAhead(): number {
    return this.#set.bytes.length - this.#at;
  }

  /** At most as many records are still to come. */
  get records(): number {
    return this.#recordsAhead + (this.#batch?.left ?? (this.#suspect ? 1 : 0));
  }

  get isAtEnd(): boolean {
    return this.#batch === undefined && this.#suspect === undefined && this.#at >= this.#set.bytes.length;
  }

  /** The damaged batch that it stands before. */
  get suspect(): SuspectBatch | undefined {
    if (!this.#suspect) return undefined;
    const { view, what } = this.#suspect;
    return { offset: this.#nextOffset, what, fingerprint: crc32c(view.whole) };
  }

  /** One record that cannot be decoded takes the place of the damaged batch. */
  condemn(): void {
    if (!this.#suspect) return;
    const { view, what } = this.#suspect;
    this.#suspect = undefined;
    this.#batch = condemnBatch(view, what);
  }

  /** Reads on until there are `recordsMax` in all. What has no records is passed over even when there are. */
  readInto(records: ReadRecord[], recordsMax: number): void {
    const limits = { recordsMax, fromOffset: this.#fromOffset };
    for (;;) {
      const batch = this.#batch ?? this.#openNext();
      if (!batch) return;
      if (batch.left > 0 && records.length >= recordsMax) return;
      batch.readInto(records, limits);
      this.#moveTo(batch.nextOffset);
      if (batch.left === 0) this.#batch = undefined;
    }
  }

  #openNext(): BatchReader | undefined {
    if (this.#suspect) return undefined;
    for (let view = this.#nextView(); view; view = this.#nextView()) {
      const isHidden = this.#aborted.hides(view);
      // Damage can make any batch look like one that is not to be seen.
      const what = damageOfBatch(view);
      if (what !== undefined) {
        this.#suspect = { view, what };
        return undefined;
      }
      if (!isHidden) {
        this.#batch = openBatch(view);
        return this.#batch;
      }
      this.#moveTo(view.lastOffset + 1);
    }
    return undefined;
  }

  #moveTo(offset: number): void {
    this.#leaderEpoch = this.#batchEpoch;
    this.#nextOffset = Math.max(this.#nextOffset, Math.min(offset, this.#offsetMax));
  }

  #nextView(): BatchView | undefined {
    const { bytes, nextOffset } = this.#set;
    const view = BatchView.at(bytes, this.#at);
    this.#at = view?.end ?? bytes.length;
    this.#recordsAhead -= view?.records ?? 0;
    this.#batchEpoch = view?.leaderEpoch;
    this.#offsetMax = BatchView.at(bytes, this.#at)?.baseOffset ?? nextOffset;
    return view;
  }
}
