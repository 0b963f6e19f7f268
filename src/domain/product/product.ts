import { assertNever } from '../assert-never.ts';
import { accept, type Decider, reject } from '../decider.ts';
import type { ProductId } from '../ids.ts';

export interface ProductRegistered {
  readonly type: 'ProductRegistered';
  readonly productId: ProductId;
  readonly name: string;
  readonly priceMinor: number;
  readonly currency: string;
  readonly stock: number;
}
export type ProductEvent = ProductRegistered;

export interface RegisterProduct {
  readonly type: 'RegisterProduct';
  readonly productId: ProductId;
  readonly name: string;
  readonly priceMinor: number;
  readonly currency: string;
  readonly stock: number;
}
export type ProductCommand = RegisterProduct;

export type Product =
  | { readonly status: 'unregistered' }
  | { readonly status: 'registered'; readonly productId: ProductId; readonly stock: number };

export type ProductRejection = 'product-already-registered';

export const productDecider = {
  initialState: { status: 'unregistered' },

  decide: (command, product) => {
    switch (command.type) {
      case 'RegisterProduct': {
        if (product.status !== 'unregistered') return reject('product-already-registered');
        const { type: _, ...facts } = command;
        return accept({ type: 'ProductRegistered', ...facts });
      }
      default:
        return assertNever(command.type);
    }
  },

  evolve: (_product, event) => {
    switch (event.type) {
      case 'ProductRegistered':
        return { status: 'registered', productId: event.productId, stock: event.stock };
      default:
        return assertNever(event.type);
    }
  },
} satisfies Decider<ProductCommand, Product, ProductEvent, ProductRejection>;
