import { productId, userId } from '../../../src/domain/ids.ts';
import { productViewDecider } from '../../../src/domain/product-view/product-view.ts';
import { givenWith } from '../../support/given.ts';

const given = givenWith(productViewDecider);
const view = { productId: productId('p-1'), userId: userId('u-1') };

describe('product view', () => {
  it('is recorded as a fact', () => {
    given()
      .when({ type: 'RecordProductView', ...view })
      .thenAccepted({ type: 'ProductViewed', ...view });
  });

  it('needs nobody to be known', () => {
    given()
      .when({ type: 'RecordProductView', ...view, userId: null })
      .thenAccepted({ type: 'ProductViewed', ...view, userId: null });
  });
});
