import type { EventEnvelope } from '../avro/envelope.ts';
import { named } from '../streams/step-name.ts';
import type { RowTable } from '../streams/tables.ts';
import { type Topology, topology } from '../streams/topology.ts';
import { type EnvelopeOf, type EnvelopeStream, ofEvent } from './of-event.ts';

const receiptTable = {
  table: 'order_receipt',
  keyColumn: 'order_id',
  columns: ['user_id', 'payment_id', 'total_minor', 'currency', 'line_count', 'lines', 'paid_at'],
} as const satisfies RowTable;

interface ReceiptLine {
  readonly product_id: string;
  /** Null where nobody had heard of the product when the wait for it was over. */
  readonly name: string | null;
  readonly quantity: number;
  readonly unit_price_minor: number;
}

/** A row of `order_receipt`: what was paid for, by name. */
export interface ReceiptRow {
  readonly user_id: string;
  readonly payment_id: string;
  readonly total_minor: number;
  readonly currency: string;
  /** A receipt with fewer lines is one that waits for the name of a product. */
  readonly line_count: number;
  readonly lines: readonly ReceiptLine[];
  readonly paid_at: string;
}

interface PaidLine {
  readonly receipt: Omit<ReceiptRow, 'lines'>;
  readonly line: ReceiptLine;
}

const paidLines = named('paidLines', ({ data, time }: EnvelopeOf<'OrderPaid'>): readonly PaidLine[] =>
  data.items.map(({ productId, quantity, unitPriceMinor }) => ({
    receipt: {
      user_id: data.userId,
      payment_id: data.paymentId,
      total_minor: data.total.amountMinor,
      currency: data.total.currency,
      line_count: data.items.length,
      paid_at: new Date(time).toISOString(),
    },
    line: { product_id: productId, name: null, quantity, unit_price_minor: unitPriceMinor },
  })),
);

const isRegistered = ofEvent('ProductRegistered');

/** What a product is called is told once, when it is registered; its other events say nothing of that. */
const nameIn = (event: EventEnvelope): { readonly name: string } | undefined =>
  isRegistered(event) ? { name: event.data.name } : undefined;

/** Far more than the shop has, and little for a process: a row is a name. */
const productsMax = 100_000;

/** An order may be handled before the product that it has just been made of: topics and processes differ by moments. */
const nameWaitMs = 5000;

/**
 * Receipts of paid orders with the names of the products. A name never changes, so that it does not matter when it is looked up,
 * and a rebuild comes to the same.
 */
export const orderReceipt = ({
  orderEvents,
  stockEvents,
}: {
  readonly orderEvents: EnvelopeStream;
  readonly stockEvents: EnvelopeStream;
}): Topology =>
  topology(
    {
      name: 'order-receipt',
      version: 1,
      onFailure: { retries: 3, backoffMs: 100, afterRetries: 'park-key' },
    },
    (t) => {
      const products = t.globalTable(stockEvents, 'product-names', { rowOf: nameIn, rowsMax: productsMax });
      t.stream(orderEvents)
        .filter(ofEvent('OrderPaid'))
        .flatMap(paidLines)
        .leftJoin(
          products,
          ({ line }) => line.product_id,
          ({ receipt, line }, product): PaidLine => ({
            receipt,
            line: { ...line, name: product?.name ?? null },
          }),
          { name: 'receipt-names', waitMs: nameWaitMs },
        )
        .groupByKey()
        .aggregate<ReceiptRow | null>('order-receipt', {
          initial: null,
          fold: (row, { receipt, line }) => ({ ...receipt, lines: [...(row?.lines ?? []), line] }),
          table: receiptTable,
        });
    },
  );
