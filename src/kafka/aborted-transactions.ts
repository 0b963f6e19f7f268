import { batchHeaderSize } from './batch-layout.ts';
import type { BatchView } from './batch-view.ts';
import { FetchedRecord } from './fetched-record.ts';
import { WireReader } from './wire-reader.ts';

/** A transaction that was given up: what its producer wrote from there on, up to the marker, does not count. */
export interface AbortedTransaction {
  readonly producerId: number;
  readonly firstOffset: number;
}

/** Walks along with whoever reads the batches, one after the other, and tells which of them nobody is to see. */
export class AbortedTransactions {
  readonly #ahead: AbortedTransaction[];
  readonly #producers = new Set<number>();

  constructor(transactions: readonly AbortedTransaction[]) {
    this.#ahead = transactions.toSorted((a, b) => a.firstOffset - b.firstOffset);
  }

  hides(batch: BatchView): boolean {
    if (!batch.isTransactional) return batch.isControl;
    while (this.#ahead[0] && this.#ahead[0].firstOffset <= batch.lastOffset) {
      this.#producers.add(this.#ahead[0].producerId);
      this.#ahead.shift();
    }
    if (!batch.isControl) return this.#producers.has(batch.producerId);
    if (isAbortMarker(batch)) this.#producers.delete(batch.producerId);
    return true;
  }
}

const abortType = 0;

/** The marker's key is its version and its type, two bytes each. */
const isAbortMarker = (batch: BatchView): boolean => {
  const { bytes, end, baseOffset, lastOffsetDelta, firstTimestampMs } = batch;
  const facts = { bytes, end, baseOffset, lastOffsetDelta, firstTimestampMs, appendedMs: undefined };
  const marker = new FetchedRecord(facts, new WireReader(bytes, batch.start + batchHeaderSize));
  return marker.isSound(0) && marker.key?.length === 4 && marker.key.readInt16BE(2) === abortType;
};
