import type { Lease } from './lease.ts';
import type { RowInPlace } from './row-in-place.ts';

/** A row of the outbox as the publisher needs it. */
export interface OutboxRow {
  readonly id: number;
  readonly eventId: string;
  readonly eventType: string;
  readonly source: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly aggregateVersion: number;
  readonly partitionKey: string;
  readonly requestId: string;
  readonly schemaFingerprint: Buffer;
  readonly payload: Buffer;
  readonly contentHash: Buffer;
  readonly traceparent: string | null;
  readonly createdAt: Date;
  /** The same as bytes, where the source has them. */
  readonly inPlace?: RowInPlace;
}

/** Rows in the order they must be published: every aggregate's versions ascend, within a page and from page to page. */
export interface OutboxPage {
  readonly rows: readonly OutboxRow[];
}

/** A row that was tried and did not arrive, or that may not overtake one that did not. */
export interface FailedRow {
  readonly row: OutboxRow;
  readonly error: string;
  /** False for a row that only waits behind an earlier one of its aggregate. */
  readonly tried: boolean;
  /** True for a row that must never be sent: it holds its aggregate until an operator decides. */
  readonly dead?: boolean;
  /** How many tries of it have already begun and never come to an end. */
  readonly unansweredCount?: number;
  /** True for a row whose payload is not what the command wrote. */
  readonly tampered?: boolean;
}

/** Order is kept within an aggregate, so that is what one failed row holds up. */
export const aggregateKey = (row: { aggregateType: string; aggregateId: string }): string =>
  `${row.aggregateType}/${row.aggregateId}`;

/** Where the relay gets its rows from: the table by snapshots, or the write-ahead log. */
export interface OutboxSource {
  /**
   * The next rows, or undefined when there is nothing new. Asked again without settling, it gives the same rows. Throws
   * `LeaseMoved` when that is known not to hold any more.
   */
  nextPage(rowsMax: number, lease: Lease): Promise<OutboxPage | undefined>;
  /**
   * What the next page will be once this one, the last that was given, is settled; undefined when that is not known yet.
   * The rows are the very same then.
   */
  pageAfter(page: OutboxPage, rowsMax: number): Promise<OutboxPage | undefined>;
  /**
   * Passes the first `count` rows of the page for good: each is in Kafka or among `failed`, which are stored in the same
   * transaction. False when the lease has gone to another relay; nothing is passed then. The next page can be asked for
   * before this is answered; one page is settled after the other.
   */
  settle(page: OutboxPage, count: number, failed: readonly FailedRow[], lease: Lease): Promise<boolean>;
  /** Forgets what is in memory; the next page comes from what is stored. */
  forget(): void;
  close(): Promise<void>;
}
