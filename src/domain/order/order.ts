import { assertNever } from '../assert-never.ts';
import { accept, type Decider, type Decision, reject } from '../decider.ts';
import type { OrderId, PaymentId, ProductId, UserId } from '../ids.ts';
import { largestAmountMinor, type Money } from '../money.ts';

export interface OrderItem {
  readonly productId: ProductId;
  readonly quantity: number;
  readonly unitPriceMinor: number;
}

/** What every event of an order repeats, so that no consumer has to ask back. */
interface OrderFacts {
  readonly orderId: OrderId;
  readonly userId: UserId;
  readonly items: readonly OrderItem[];
  readonly total: Money;
}
export interface OrderCreated extends OrderFacts {
  readonly type: 'OrderCreated';
}
export interface OrderPaid extends OrderFacts {
  readonly type: 'OrderPaid';
  readonly paymentId: PaymentId;
}
export interface OrderCanceled extends OrderFacts {
  readonly type: 'OrderCanceled';
}
export type OrderEvent = OrderCreated | OrderPaid | OrderCanceled;

/** The products' prices at the time of the order come with it. */
export interface PlaceOrder {
  readonly type: 'PlaceOrder';
  readonly orderId: OrderId;
  readonly userId: UserId;
  readonly items: readonly (OrderItem & { readonly currency: string })[];
}
export interface PayOrder {
  readonly type: 'PayOrder';
  readonly paymentId: PaymentId;
}
export interface CancelOrder {
  readonly type: 'CancelOrder';
}
export type OrderCommand = PlaceOrder | PayOrder | CancelOrder;

export type Order =
  | { readonly status: 'none' }
  | ({ readonly status: 'created' | 'paid' | 'canceled' } & OrderFacts);

export type OrderRejection =
  | { readonly reason: 'order-already-placed' }
  | { readonly reason: 'order-unknown' }
  | { readonly reason: 'order-empty' }
  | { readonly reason: 'order-item-repeated'; readonly productId: ProductId }
  | { readonly reason: 'order-currencies-differ' }
  | { readonly reason: 'order-total-too-large' }
  | { readonly reason: 'order-already-paid' }
  | { readonly reason: 'order-already-canceled' };

type OrderDecision = Decision<OrderEvent, OrderRejection>;

export const orderDecider = {
  initialState: { status: 'none' },

  decide: (command, order): OrderDecision => {
    switch (command.type) {
      case 'PlaceOrder':
        return order.status === 'none' ? place(command) : reject({ reason: 'order-already-placed' });
      case 'PayOrder':
        return settle(order, (facts) => ({ type: 'OrderPaid', ...facts, paymentId: command.paymentId }));
      case 'CancelOrder':
        return settle(order, (facts) => ({ type: 'OrderCanceled', ...facts }));
      default:
        return assertNever(command);
    }
  },

  evolve: (_order, event): Order => {
    const { orderId, userId, items, total } = event;
    const facts = { orderId, userId, items, total };
    switch (event.type) {
      case 'OrderCreated':
        return { status: 'created', ...facts };
      case 'OrderPaid':
        return { status: 'paid', ...facts };
      case 'OrderCanceled':
        return { status: 'canceled', ...facts };
      default:
        return assertNever(event);
    }
  },
} satisfies Decider<OrderCommand, Order, OrderEvent, OrderRejection>;

const place = ({ orderId, userId, items }: PlaceOrder): OrderDecision => {
  const [first] = items;
  if (!first) return reject({ reason: 'order-empty' });
  const repeated = items.find(
    (item, index) => items.findIndex(({ productId }) => productId === item.productId) !== index,
  );
  if (repeated) return reject({ reason: 'order-item-repeated', productId: repeated.productId });
  if (items.some(({ currency }) => currency !== first.currency))
    return reject({ reason: 'order-currencies-differ' });

  // In whole numbers without bounds first: two exact amounts can have a sum that is none.
  const total = items.reduce((sum, item) => sum + BigInt(item.quantity) * BigInt(item.unitPriceMinor), 0n);
  if (total > BigInt(largestAmountMinor)) return reject({ reason: 'order-total-too-large' });
  return accept({
    type: 'OrderCreated',
    orderId,
    userId,
    items: items.map(({ productId, quantity, unitPriceMinor }) => ({ productId, quantity, unitPriceMinor })),
    total: { amountMinor: Number(total), currency: first.currency },
  });
};

/** An order is paid or canceled, one of them and once. */
const settle = (order: Order, toEvent: (facts: OrderFacts) => OrderEvent): OrderDecision => {
  if (order.status === 'none') return reject({ reason: 'order-unknown' });
  const { status, ...facts } = order;
  switch (status) {
    case 'created':
      return accept(toEvent(facts));
    case 'paid':
      return reject({ reason: 'order-already-paid' });
    case 'canceled':
      return reject({ reason: 'order-already-canceled' });
    default:
      return assertNever(status);
  }
};
