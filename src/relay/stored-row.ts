import { ContentVerifier } from '../journal/content-hash.ts';
import type { RecordHeaders } from '../kafka/header-block.ts';
import type { RecordInPlace, RecordShape } from '../kafka/record-batch.ts';
import type { BinaryRows } from '../postgres/binary-rows.ts';
import { readInt8, readTimestamp, readUuid } from '../postgres/binary-values.ts';
import type { OutboxRow } from './outbox-source.ts';
import type { RowInPlace } from './row-in-place.ts';

/**
 * The columns that a page is read with, in the order that `StoredRow` expects: those of fixed width stand at the same place
 * in every row; event type, source and schema stand together; what only a failure needs comes last.
 */
export const storedColumns = `
  id, event_id, content_hash, created_at, aggregate_version, event_type, source, schema_fingerprint, partition_key,
  request_id, payload, traceparent, aggregate_type, aggregate_id`;

const lengthBytes = 4;
const idAt = lengthBytes;
const eventIdAt = idAt + 8 + lengthBytes;
const contentHashAt = eventIdAt + 16 + lengthBytes;
const createdAtAt = contentHashAt + 32 + lengthBytes;
const aggregateVersionAt = createdAtAt + 8 + lengthBytes;
/** Where the length of the first column stands that has not the same width in every row. */
const variableFrom = aggregateVersionAt + 4;

const noShape: RecordShape = { valuePrefix: undefined, sharedHeaders: undefined };
const verifier = new ContentVerifier();

/**
 * A row of a page, read from the page's bytes when it is asked for something: most rows are asked for very little. It is
 * its own record as well, so that a row costs one object on its way to Kafka.
 */
export class StoredRow implements OutboxRow, RowInPlace, RecordInPlace {
  readonly bytes: Buffer;
  readonly keyStart: number;
  readonly keyEnd: number;
  readonly valueStart: number;
  readonly valueEnd: number;
  readonly uuidStart: number;
  shape: RecordShape = noShape;
  headers: RecordHeaders | undefined;
  readonly #start: number;

  constructor(bytes: Buffer, start: number) {
    this.bytes = bytes;
    this.#start = start;
    this.uuidStart = start + eventIdAt;
    const eventTypeEnd = endOfColumn(bytes, start + variableFrom);
    const sourceEnd = endOfColumn(bytes, eventTypeEnd);
    const schemaEnd = endOfColumn(bytes, sourceEnd);
    this.keyStart = schemaEnd + lengthBytes;
    this.keyEnd = endOfColumn(bytes, schemaEnd);
    this.valueStart = endOfColumn(bytes, this.keyEnd) + lengthBytes;
    this.valueEnd = endOfColumn(bytes, this.valueStart - lengthBytes);
  }

  get inPlace(): RowInPlace {
    return this;
  }

  toRecord(shape: RecordShape, headers: RecordHeaders | undefined): RecordInPlace {
    this.shape = shape;
    this.headers = headers;
    return this;
  }

  get kind(): string {
    return this.bytes.toString('latin1', this.#start + variableFrom, this.keyStart - lengthBytes);
  }

  isOfKindOf(other: RowInPlace): boolean {
    if (!(other instanceof StoredRow)) return false;
    const start = this.#start + variableFrom;
    const otherStart = other.#start + variableFrom;
    const end = this.keyStart - lengthBytes;
    const otherEnd = other.keyStart - lengthBytes;
    if (end - start !== otherEnd - otherStart) return false;
    return this.bytes.compare(other.bytes, otherStart, otherEnd, start, end) === 0;
  }

  isIntact(): boolean {
    const { bytes } = this;
    const eventTypeStart = this.#start + variableFrom;
    verifier.begin();
    verifier.add(bytes, this.keyEnd + lengthBytes, this.valueStart - lengthBytes);
    verifier.separate();
    verifier.add(bytes, eventTypeStart + lengthBytes, endOfColumn(bytes, eventTypeStart));
    verifier.separate();
    verifier.add(bytes, this.valueStart, this.valueEnd);
    return verifier.matches(bytes, this.#start + contentHashAt);
  }

  get id(): number {
    return readInt8(this.bytes, this.#start + idAt);
  }

  get eventId(): string {
    return readUuid(this.bytes, this.uuidStart);
  }

  get contentHash(): Buffer {
    return this.bytes.subarray(this.#start + contentHashAt, this.#start + contentHashAt + 32);
  }

  get createdAt(): Date {
    return readTimestamp(this.bytes, this.#start + createdAtAt);
  }

  get aggregateVersion(): number {
    return this.bytes.readInt32BE(this.#start + aggregateVersionAt);
  }

  get eventType(): string {
    return this.#text(this.#start + variableFrom);
  }

  get source(): string {
    return this.#text(endOfColumn(this.bytes, this.#start + variableFrom));
  }

  get schemaFingerprint(): Buffer {
    const sourceAt = endOfColumn(this.bytes, this.#start + variableFrom);
    return this.bytes.subarray(endOfColumn(this.bytes, sourceAt) + lengthBytes, this.keyStart - lengthBytes);
  }

  get partitionKey(): string {
    return this.bytes.toString('utf8', this.keyStart, this.keyEnd);
  }

  get requestId(): string {
    return this.#text(this.keyEnd);
  }

  get payload(): Buffer {
    return this.bytes.subarray(this.valueStart, this.valueEnd);
  }

  get traceparent(): string | null {
    return this.bytes.readInt32BE(this.valueEnd) < 0 ? null : this.#text(this.valueEnd);
  }

  get aggregateType(): string {
    return this.#text(endOfColumn(this.bytes, this.valueEnd));
  }

  get aggregateId(): string {
    return this.#text(endOfColumn(this.bytes, endOfColumn(this.bytes, this.valueEnd)));
  }

  /** The text of the column whose length stands there. */
  #text(at: number): string {
    return this.bytes.toString('utf8', at + lengthBytes, endOfColumn(this.bytes, at));
  }
}

const endOfColumn = (bytes: Buffer, at: number): number =>
  at + lengthBytes + Math.max(0, bytes.readInt32BE(at));

export const storedRowsOf = ({ bytes, starts }: BinaryRows): readonly StoredRow[] =>
  starts.map((start) => new StoredRow(bytes, start));
