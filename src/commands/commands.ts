import { adjustStock } from './adjust-stock.ts';
import { cancelOrder } from './cancel-order.ts';
import { changeLike } from './change-like.ts';
import type {
  CommandOutcome,
  CommandRequest,
  LikeAnswer,
  OrderAnswer,
  PaymentAnswer,
  ProductAnswer,
  StockAnswer,
} from './command.ts';
import type { CommandExecutor } from './command-executor.ts';
import { confirmPayment } from './confirm-payment.ts';
import { createPayment } from './create-payment.ts';
import { failPayment } from './fail-payment.ts';
import { placeOrder } from './place-order.ts';
import { recordProductView } from './record-product-view.ts';
import { registerProduct } from './register-product.ts';

type Run<Input, Answer> = (input: Input, request: CommandRequest) => Promise<CommandOutcome<Answer>>;

/** Everything that can be asked of the write side. */
export interface Commands {
  readonly registerProduct: Run<
    {
      readonly productId: string | undefined;
      readonly name: string;
      readonly priceMinor: number;
      readonly currency: string;
      readonly stock: number;
    },
    ProductAnswer
  >;
  readonly adjustStock: Run<
    { readonly productId: string; readonly delta: number; readonly reason: string },
    StockAnswer
  >;
  readonly recordProductView: Run<
    { readonly productId: string; readonly userId: string | undefined },
    ProductAnswer
  >;
  readonly likeProduct: Run<{ readonly productId: string; readonly userId: string }, LikeAnswer>;
  readonly unlikeProduct: Run<{ readonly productId: string; readonly userId: string }, LikeAnswer>;
  readonly placeOrder: Run<
    {
      readonly userId: string;
      readonly items: readonly { readonly productId: string; readonly quantity: number }[];
    },
    OrderAnswer
  >;
  readonly cancelOrder: Run<{ readonly orderId: string }, OrderAnswer>;
  readonly createPayment: Run<
    { readonly orderId: string; readonly amountMinor: number; readonly method: string },
    PaymentAnswer
  >;
  readonly confirmPayment: Run<{ readonly paymentId: string }, PaymentAnswer>;
  readonly failPayment: Run<{ readonly paymentId: string; readonly reason: string }, PaymentAnswer>;
}

/** Binds the commands to what runs them. Ids that a command begins with are made here, once, however often it is decided. */
export const createCommands = (
  executor: CommandExecutor,
  ids: { readonly newId: () => string; readonly newEventId: () => string },
): Commands => {
  const { newId, newEventId } = ids;
  return {
    registerProduct: ({ productId = newId(), ...rest }, request) =>
      executor.execute(registerProduct({ productId, ...rest }), request),
    adjustStock: (input, request) => executor.execute(adjustStock(input), request),
    recordProductView: (input, request) =>
      executor.execute(recordProductView({ ...input, eventId: newEventId() }), request),
    likeProduct: (input, request) => executor.execute(changeLike('LikeProduct', input), request),
    unlikeProduct: (input, request) => executor.execute(changeLike('UnlikeProduct', input), request),
    placeOrder: (input, request) => executor.execute(placeOrder({ ...input, orderId: newId() }), request),
    cancelOrder: (input, request) =>
      executor.execute(cancelOrder({ ...input, actingUser: request.actingUser }), request),
    createPayment: (input, request) =>
      executor.execute(
        createPayment({ ...input, paymentId: newId(), actingUser: request.actingUser }),
        request,
      ),
    confirmPayment: (input, request) => executor.execute(confirmPayment(input), request),
    failPayment: (input, request) => executor.execute(failPayment(input), request),
  };
};
