/** No fact of the business: a record of a stream on its way to the partition of another key. */
export interface RecordRekeyed {
  readonly type: 'RecordRekeyed';
  /** The step that sends it and waits for it: `<projection>/<name>`. */
  readonly through: string;
  readonly key: string;
  /** The record's value as JSON. */
  readonly value: string;
}
