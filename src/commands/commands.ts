import type { CommandPorts } from './execute-command.ts';
import { recordProductView } from './record-product-view.ts';
import { registerProduct } from './register-product.ts';

type WithoutPorts<F> = F extends (ports: CommandPorts, ...rest: infer Rest) => infer Result
  ? (...rest: Rest) => Result
  : never;

/** Everything that can be asked of the write side. */
export interface Commands {
  readonly registerProduct: WithoutPorts<typeof registerProduct>;
  readonly recordProductView: WithoutPorts<typeof recordProductView>;
}

export const createCommands = (ports: CommandPorts): Commands => ({
  registerProduct: (...args) => registerProduct(ports, ...args),
  recordProductView: (...args) => recordProductView(ports, ...args),
});
