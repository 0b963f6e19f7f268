import type { EventEnvelope } from '../avro/envelope.ts';
import type { Windowed } from '../streams/kstream.ts';
import type { RowTable } from '../streams/tables.ts';
import { type Topology, topology } from '../streams/topology.ts';
import { closesAtMs, hopping } from '../streams/windows.ts';
import { type EnvelopeOf, type EnvelopeStream, ofEvent } from './of-event.ts';

const momentumTable = {
  table: 'product_momentum',
  keyColumn: 'product_id',
  columns: ['window_start', 'window_end', 'closes_at', 'view_count', 'like_count'],
  expiryColumn: 'closes_at',
} as const satisfies RowTable;

/** A row of `product_momentum`: ten minutes that end within two minutes of the product's latest event. */
export interface ProductMomentumRow {
  readonly window_start: string;
  readonly window_end: string;
  readonly closes_at: string;
  readonly view_count: number;
  readonly like_count: number;
}

const minute_ms = 60_000;

/** Every event is in five of them. */
export const momentumWindows = hopping({
  sizeMs: 10 * minute_ms,
  advanceMs: 2 * minute_ms,
  graceMs: minute_ms,
});

interface Momentum {
  readonly views: number;
  readonly likes: number;
  readonly latestMs: number;
}
type MomentumWindow = Windowed<Momentum>;

const isLike = ofEvent('LikeCreated');
const isView = ofEvent('ProductViewed');
const isInterest = (event: EventEnvelope): event is EnvelopeOf<'LikeCreated' | 'ProductViewed'> =>
  isLike(event) || isView(event);

const withEvent = ({ views, likes, latestMs }: Momentum, event: EventEnvelope): Momentum => ({
  views: views + (isView(event) ? 1 : 0),
  likes: likes + (isLike(event) ? 1 : 0),
  latestMs: Math.max(latestMs, event.time),
});

/** Of all windows that an event is in, the one that goes back furthest: it ends within two minutes. */
const endsWithLatest = ({ endMs, value }: MomentumWindow): boolean =>
  value.latestMs >= endMs - momentumWindows.advanceMs;

const isoTime = (timeMs: number): string => new Date(timeMs).toISOString();

const rowOf = ({ startMs, endMs, value }: MomentumWindow): ProductMomentumRow => ({
  window_start: isoTime(startMs),
  window_end: isoTime(endMs),
  closes_at: isoTime(closesAtMs(momentumWindows, { endMs })),
  view_count: value.views,
  like_count: value.likes,
});

/** The row of a window goes with it, unless a later one is known by then. */
const after = (row: ProductMomentumRow | null, window: MomentumWindow): ProductMomentumRow | null => {
  if (row && Date.parse(row.window_end) > window.endMs) return row;
  return window.isFinal ? null : rowOf(window);
};

/**
 * What people look at and like right now. Each event changes its product's row at once, by an early result of its window; when
 * nothing has happened for three minutes at most, the final result takes the row away. Early results come with every record and not
 * at most so often: the rows of a batch are written once anyway, and a row that follows from the events alone is the same
 * after a rebuild.
 */
export const productMomentum = (from: {
  readonly likeEvents: EnvelopeStream;
  readonly viewEvents: EnvelopeStream;
}): Topology =>
  topology(
    {
      name: 'product-momentum',
      version: 1,
      onFailure: { retries: 3, backoffMs: 100, afterRetries: 'skip-record' },
    },
    (t) => {
      t.stream(from.viewEvents)
        .merge(t.stream(from.likeEvents))
        .filter(isInterest, { name: 'views and likes' })
        .groupByKey()
        .windowedBy(momentumWindows)
        .emit('on-update')
        .aggregate('product-momentum-windows', {
          initial: { views: 0, likes: 0, latestMs: 0 },
          fold: withEvent,
        })
        .filter(endsWithLatest, { name: 'windows up to the latest event' })
        .groupByKey()
        .aggregate<ProductMomentumRow | null>('product-momentum', {
          initial: null,
          fold: after,
          table: momentumTable,
        });
    },
  );
