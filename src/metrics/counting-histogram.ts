import { Histogram } from 'prom-client';

/**
 * A histogram without labels that counts without allocating: the relay tells it the age of every event, and the library's
 * own makes several objects per value.
 */
export class CountingHistogram extends Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #bounds: Float64Array;
  /** One more than there are bounds: what lies above the last of them. */
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(config: {
    name: string;
    help: string;
    buckets: number[];
    registers: NonNullable<ConstructorParameters<typeof Histogram>[0]['registers']>;
  }) {
    super(config);
    this.#name = config.name;
    this.#help = config.help;
    this.#bounds = Float64Array.from(config.buckets);
    this.#counts = new Float64Array(config.buckets.length + 1);
  }

  count(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] ?? 0)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
  }

  /** What the registry, and `get` of the base class, ask for the values. */
  async getForPromString() {
    let total = 0;
    const sample = (suffix: string, value: number, labels = {}) => ({
      metricName: `${this.#name}_${suffix}`,
      labels,
      sharedLabels: {},
      value,
    });
    const buckets = [...this.#counts].map((count, bucket) => {
      total += count;
      return sample('bucket', total, { le: this.#bounds[bucket] ?? '+Inf' });
    });
    return {
      name: this.#name,
      help: this.#help,
      type: 'histogram',
      aggregator: 'sum',
      values: [...buckets, sample('sum', this.#sum), sample('count', total)],
    };
  }
}
