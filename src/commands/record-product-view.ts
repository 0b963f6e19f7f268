import { productViewDecider, type RecordProductView } from '../domain/product-view/product-view.ts';
import { streamExists } from '../journal/read-stream.ts';
import type { CommandContext } from '../journal/seal-event.ts';
import { type CommandPorts, type CommandResult, executeCommand } from './execute-command.ts';

/** A product once registered stays so: looking before the transaction cannot be overtaken by anything. */
export const recordProductView = async (
  ports: CommandPorts,
  command: RecordProductView,
  context: CommandContext,
): Promise<CommandResult<'product-unknown'>> => {
  const known = await streamExists(ports.database, {
    aggregateType: 'Product',
    aggregateId: command.productId,
  });
  if (!known) return { outcome: 'rejected', rejection: 'product-unknown' };

  const eventId = ports.newEventId();
  return executeCommand(ports, {
    decider: productViewDecider,
    stream: { aggregateType: 'ProductView', aggregateId: `${command.productId}_${eventId}` },
    command,
    context,
    firstEventId: eventId,
  });
};
