import type { LikeEvent } from './like/like.ts';
import type { OrderEvent } from './order/order.ts';
import type { PaymentEvent } from './payment/payment.ts';
import type { ProductEvent } from './product/product.ts';
import type { ProductViewed } from './product-view/product-view.ts';

/** Every fact there is. The event catalogue must have an entry for each, or it does not compile. */
export type DomainEvent = ProductEvent | ProductViewed | OrderEvent | PaymentEvent | LikeEvent;
