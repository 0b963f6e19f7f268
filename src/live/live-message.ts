import type { SqlRunner } from '../postgres/database.ts';
import { findOrders } from '../read-model/find-orders.ts';
import { findStatistics } from '../read-model/find-statistics.ts';
import type { ChangedKeys } from './read-changes.ts';

export const liveKinds = ['statistics', 'orders'] as const;
export type LiveKind = (typeof liveKinds)[number];

/** Some changes of one kind, as they go out. */
export interface Portion {
  readonly kind: LiveKind;
  readonly messages: number;
  readonly forAll: string;
  /** What each user may hear of it; everybody may hear all of it where this is missing. */
  readonly byOwner: ReadonlyMap<string, string> | undefined;
}

/** Whose read models are told live, and as what. */
const kindOfTable: ReadonlyMap<string, LiveKind> = new Map([
  ['product_statistic', 'statistics'],
  ['order_view', 'orders'],
]);
export const toldTables: ReadonlySet<string> = new Set(kindOfTable.keys());

/** What is told of these tables. */
export const kindsOf = (tables: readonly string[]): readonly LiveKind[] =>
  tables.flatMap((table) => kindOfTable.get(table) ?? []);

/** An order can have a hundred items: so many rows are a megabyte at most. */
const rowsAtOnce = 100;

/**
 * What has changed, as it is now: whoever was away, or whom several changes reached at once, hears of the last. In portions, so
 * that ever so many changes take little memory.
 */
export async function* portionsOf(db: SqlRunner, keys: ChangedKeys): AsyncGenerator<Portion> {
  for (const some of slicesOf(keys.product_statistic ?? [])) {
    const blocks = (await findStatistics(db, some)).map((statistic) =>
      eventBlock('product-statistic', statistic),
    );
    yield { kind: 'statistics', messages: blocks.length, forAll: blocks.join(''), byOwner: undefined };
  }
  for (const some of slicesOf(keys.order_view ?? [])) {
    const orders = await findOrders(db, some);
    const byOwner = new Map<string, string>();
    for (const order of orders)
      byOwner.set(order.userId, (byOwner.get(order.userId) ?? '') + eventBlock('order', order));
    yield { kind: 'orders', messages: orders.length, forAll: [...byOwner.values()].join(''), byOwner };
  }
}

function* slicesOf(keys: readonly string[]): Generator<readonly string[]> {
  for (let start = 0; start < keys.length; start += rowsAtOnce) yield keys.slice(start, start + rowsAtOnce);
}

/** An event of a stream as the WHATWG has it; JSON has no line breaks that would end it early. */
export const eventBlock = (event: string, data: unknown, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

/** Tells how far the client has heard, and nothing else: no event comes of it. */
export const idBlock = (id: string): string => `id: ${id}\n\n`;
