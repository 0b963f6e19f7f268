/** What carries an event between the write side and the read side. Field for field the record in `avro/envelope.avsc`. */
export interface Envelope<Data = Readonly<Record<string, unknown>>> {
  readonly id: string;
  readonly type: string;
  readonly source: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly aggregateVersion: number;
  /** Milliseconds since the epoch. */
  readonly time: number;
  readonly correlationId: string;
  readonly causationId: string;
  readonly traceparent: string | null;
  readonly data: Data;
}
