import { assertNever } from '../assert-never.ts';
import { accept, type Decider, type Decision, reject } from '../decider.ts';
import type { OrderId, ProductId } from '../ids.ts';
import type { Money } from '../money.ts';

export interface ProductRegistered {
  readonly type: 'ProductRegistered';
  readonly productId: ProductId;
  readonly name: string;
  readonly price: Money;
  readonly stock: number;
}
/** Every stock event carries the stock it leaves behind, so that nobody has to add up. */
export interface StockAdjusted {
  readonly type: 'StockAdjusted';
  readonly productId: ProductId;
  readonly delta: number;
  readonly reason: string;
  readonly stock: number;
}
export interface StockReserved {
  readonly type: 'StockReserved';
  readonly productId: ProductId;
  readonly orderId: OrderId;
  readonly quantity: number;
  readonly stock: number;
}
export interface StockReleased {
  readonly type: 'StockReleased';
  readonly productId: ProductId;
  readonly orderId: OrderId;
  readonly quantity: number;
  readonly stock: number;
}
export interface StockDepleted {
  readonly type: 'StockDepleted';
  readonly productId: ProductId;
}
export type ProductEvent = ProductRegistered | StockAdjusted | StockReserved | StockReleased | StockDepleted;

export interface RegisterProduct {
  readonly type: 'RegisterProduct';
  readonly productId: ProductId;
  readonly name: string;
  readonly price: Money;
  readonly stock: number;
}
export interface AdjustStock {
  readonly type: 'AdjustStock';
  readonly delta: number;
  readonly reason: string;
}
export interface ReserveStock {
  readonly type: 'ReserveStock';
  readonly orderId: OrderId;
  readonly quantity: number;
}
/** Given back by an order that is canceled; the order sees to it that this happens once. */
export interface ReleaseStock {
  readonly type: 'ReleaseStock';
  readonly orderId: OrderId;
  readonly quantity: number;
}
export type ProductCommand = RegisterProduct | AdjustStock | ReserveStock | ReleaseStock;

export interface RegisteredProduct {
  readonly status: 'registered';
  readonly productId: ProductId;
  readonly price: Money;
  readonly stock: number;
}
export type Product = { readonly status: 'unregistered' } | RegisteredProduct;

export type ProductRejection =
  | { readonly reason: 'product-already-registered'; readonly productId: ProductId }
  | { readonly reason: 'product-unknown' }
  | {
      readonly reason: 'stock-insufficient';
      readonly productId: ProductId;
      readonly stock: number;
      readonly wanted: number;
    }
  | { readonly reason: 'stock-too-large'; readonly productId: ProductId };

type ProductDecision = Decision<ProductEvent, ProductRejection>;

/** Beyond this a count of pieces could no longer be added to without losing one. */
export const largestStock = 1_000_000_000_000;

export const productDecider = {
  initialState: { status: 'unregistered' },

  decide: (command, product): ProductDecision => {
    if (command.type === 'RegisterProduct') {
      const { type: _, ...facts } = command;
      return product.status === 'unregistered'
        ? accept({ type: 'ProductRegistered', ...facts })
        : reject({ reason: 'product-already-registered', productId: product.productId });
    }
    if (product.status === 'unregistered') return reject({ reason: 'product-unknown' });
    const { productId } = product;

    switch (command.type) {
      case 'AdjustStock': {
        const { delta, reason } = command;
        return changeStock(product, delta, (stock) => ({
          type: 'StockAdjusted',
          productId,
          delta,
          reason,
          stock,
        }));
      }
      case 'ReserveStock': {
        const { orderId, quantity } = command;
        return changeStock(product, -quantity, (stock) => ({
          type: 'StockReserved',
          productId,
          orderId,
          quantity,
          stock,
        }));
      }
      case 'ReleaseStock': {
        const { orderId, quantity } = command;
        return changeStock(product, quantity, (stock) => ({
          type: 'StockReleased',
          productId,
          orderId,
          quantity,
          stock,
        }));
      }
      default:
        return assertNever(command);
    }
  },

  evolve: (product, event): Product => {
    switch (event.type) {
      case 'ProductRegistered':
        return { status: 'registered', productId: event.productId, price: event.price, stock: event.stock };
      case 'StockAdjusted':
      case 'StockReserved':
      case 'StockReleased':
        return product.status === 'registered' ? { ...product, stock: event.stock } : product;
      case 'StockDepleted':
        return product;
      default:
        return assertNever(event);
    }
  },
} satisfies Decider<ProductCommand, Product, ProductEvent, ProductRejection>;

/** The one place where stock changes: it never goes below zero, and reaching zero is told once. */
const changeStock = (
  { productId, stock }: RegisteredProduct,
  delta: number,
  toEvent: (stock: number) => ProductEvent,
): ProductDecision => {
  const left = stock + delta;
  if (left < 0) return reject({ reason: 'stock-insufficient', productId, stock, wanted: -delta });
  if (left > largestStock) return reject({ reason: 'stock-too-large', productId });
  const changed = toEvent(left);
  return left === 0 && stock > 0 ? accept(changed, { type: 'StockDepleted', productId }) : accept(changed);
};
