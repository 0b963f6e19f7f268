import type { Decider } from '../domain/decider.ts';
import type { DomainEvent } from '../domain/domain-event.ts';
import { type Like, type LikeCommand, type LikeEvent, likeDecider } from '../domain/like/like.ts';
import { type Order, type OrderCommand, type OrderEvent, orderDecider } from '../domain/order/order.ts';
import {
  type Payment,
  type PaymentCommand,
  type PaymentEvent,
  paymentDecider,
} from '../domain/payment/payment.ts';
import {
  type Product,
  type ProductCommand,
  type ProductEvent,
  productDecider,
} from '../domain/product/product.ts';
import {
  type ProductView,
  type ProductViewed,
  productViewDecider,
  type RecordProductView,
} from '../domain/product-view/product-view.ts';
import type { AggregateType } from '../event-catalogue/event-catalogue.ts';
import type { Rejection } from './command.ts';

/** What each aggregate is in memory, and what can be asked of it. */
export interface AggregateStates {
  readonly Product: Product;
  readonly ProductView: ProductView;
  readonly Order: Order;
  readonly Payment: Payment;
  readonly Like: Like;
}
export interface AggregateCommands {
  readonly Product: ProductCommand;
  readonly ProductView: RecordProductView;
  readonly Order: OrderCommand;
  readonly Payment: PaymentCommand;
  readonly Like: LikeCommand;
}
interface AggregateEvents {
  readonly Product: ProductEvent;
  readonly ProductView: ProductViewed;
  readonly Order: OrderEvent;
  readonly Payment: PaymentEvent;
  readonly Like: LikeEvent;
}

interface Aggregate<Type extends AggregateType> {
  readonly decider: Decider<AggregateCommands[Type], AggregateStates[Type], AggregateEvents[Type], Rejection>;
  /** Raised when `evolve` or the state changes its meaning: snapshots of another version are not used. */
  readonly foldVersion: number;
  /** A snapshot every so many events; undefined for streams that stay short by nature. */
  readonly snapshotEvery: number | undefined;
}

export const aggregates: { readonly [Type in AggregateType]: Aggregate<Type> } = {
  Product: { decider: productDecider, foldVersion: 1, snapshotEvery: 100 },
  ProductView: { decider: productViewDecider, foldVersion: 1, snapshotEvery: undefined },
  Order: { decider: orderDecider, foldVersion: 1, snapshotEvery: undefined },
  Payment: { decider: paymentDecider, foldVersion: 1, snapshotEvery: undefined },
  Like: { decider: likeDecider, foldVersion: 1, snapshotEvery: 100 },
};

/** The table above is typed by name; behind a name everything belongs together. */
export const deciderOf = (type: AggregateType): Decider<unknown, unknown, DomainEvent, Rejection> =>
  aggregates[type].decider as unknown as Decider<unknown, unknown, DomainEvent, Rejection>;
