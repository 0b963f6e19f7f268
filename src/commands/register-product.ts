import { type ProductRejection, productDecider, type RegisterProduct } from '../domain/product/product.ts';
import type { CommandContext } from '../journal/seal-event.ts';
import { type CommandPorts, type CommandResult, executeCommand } from './execute-command.ts';

export const registerProduct = (
  ports: CommandPorts,
  command: RegisterProduct,
  context: CommandContext,
): Promise<CommandResult<ProductRejection>> =>
  executeCommand(ports, {
    decider: productDecider,
    stream: { aggregateType: 'Product', aggregateId: command.productId },
    command,
    context,
  });
