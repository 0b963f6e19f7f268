import { productId } from '../../../src/domain/ids.ts';
import { type ProductRegistered, productDecider } from '../../../src/domain/product/product.ts';
import { givenWith } from '../../support/given.ts';

const given = givenWith(productDecider);
const facts = { productId: productId('p-1'), name: 'Mill', priceMinor: 1999, currency: 'EUR', stock: 5 };
const registered: ProductRegistered = { type: 'ProductRegistered', ...facts };

describe('product', () => {
  it('can be registered', () => {
    given()
      .when({ type: 'RegisterProduct', ...facts })
      .thenAccepted(registered);
  });

  it('can be registered once', () => {
    given(registered)
      .when({ type: 'RegisterProduct', ...facts, name: 'Another' })
      .thenRejected('product-already-registered');
  });
});
